"""Layers of Brevitas and ours with equal parameters, and what is asked of both."""

import torch
from attrs import evolve
from brevitas import quant
from brevitas.inject.enum import RestrictValueType, ScalingImplType
from brevitas.quant import float_quant_ocp, mx_quant_ocp

from qconfig.configs import PerAxis
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.tensors.quant_tensor.base import QuantTensor

STEPS = 3
"""Steps of calibration."""

WEIGHT = IntQuantConfig(narrow_range=True)
SEEN = IntQuantConfig(
    scale_kind="PARAMETER_FROM_STATS", scale_statistic="PERCENTILE", collect_steps=STEPS
)
LEARNED = "PARAMETER_FROM_STATS"

FIXED_POINT = {"scale_restriction": "POWER_OF_TWO"}
E4M3 = FloatQuantConfig(scale_restriction="FP")
MX = GroupwiseFloatQuantConfig(group_size=8)


def brevitas_weight(base, **more):
    """Return a weight quantizer of Brevitas, changed."""
    return type("Weight", (base,), more)


def brevitas_activation(base, **more):
    """Return an activation quantizer of Brevitas with few steps of calibration."""
    return type("Activation", (base,), {"collect_stats_steps": STEPS, **more})


WEIGHTS = {
    "tensor": (quant.Int8WeightPerTensorFloat, WEIGHT),
    "channel": (quant.Int8WeightPerChannelFloat, evolve(WEIGHT, granularity=PerAxis(0))),
    "int4": (
        brevitas_weight(quant.Int8WeightPerTensorFloat, bit_width=4),
        evolve(WEIGHT, bit_width=4),
    ),
    "power_of_two": (quant.Int8WeightPerTensorFixedPoint, evolve(WEIGHT, **FIXED_POINT)),
    "learned": (
        brevitas_weight(
            quant.Int8WeightPerTensorFloat, scaling_impl_type=ScalingImplType.PARAMETER_FROM_STATS
        ),
        evolve(WEIGHT, scale_kind=LEARNED),
    ),
    "learned_channel": (
        brevitas_weight(
            quant.Int8WeightPerChannelFloat, scaling_impl_type=ScalingImplType.PARAMETER_FROM_STATS
        ),
        evolve(WEIGHT, scale_kind=LEARNED, granularity=PerAxis(0)),
    ),
    "learned_log": (
        brevitas_weight(
            quant.Int8WeightPerTensorFloat,
            scaling_impl_type=ScalingImplType.PARAMETER_FROM_STATS,
            restrict_scaling_type=RestrictValueType.LOG_FP,
        ),
        evolve(WEIGHT, scale_kind=LEARNED, scale_restriction="LOG_FP"),
    ),
    "shifted": (
        quant.ShiftedUint8WeightPerTensorFloat,
        IntQuantConfig(signed=False, scale_statistic="MIN_MAX", zero_point_kind="STATS"),
    ),
    "learned_bits": (
        brevitas_weight(quant.Int8WeightPerTensorFloat, bit_width_impl_type="parameter"),
        evolve(WEIGHT, learned_bit_width=True),
    ),
    "float8": (float_quant_ocp.Fp8e4m3OCPWeightPerTensorFloat, E4M3),
    "mx": (
        brevitas_weight(mx_quant_ocp.MXFloat8e4m3Weight, group_size=8),
        MX,
    ),
}

ACTIVATIONS = {
    "int8": (quant.Int8ActPerTensorFloat, SEEN),
    "uint8": (quant.Uint8ActPerTensorFloat, evolve(SEEN, signed=False)),
    "power_of_two": (quant.Int8ActPerTensorFixedPoint, evolve(SEEN, **FIXED_POINT)),
    "shifted": (
        quant.ShiftedUint8ActPerTensorFloat,
        evolve(
            SEEN,
            signed=False,
            scale_statistic="PERCENTILE_INTERVAL",
            zero_point_kind=LEARNED,
            zero_point_statistic="PERCENTILE",
        ),
    ),
    "float8": (
        float_quant_ocp.Fp8e4m3OCPActPerTensorFloat,
        evolve(E4M3, scale_kind=LEARNED, scale_statistic="PERCENTILE", collect_steps=STEPS),
    ),
}


def threshold_of(quantizer):
    """Return the learned threshold of a quantizer of Brevitas, or None."""
    for name, parameter in quantizer.named_parameters():
        if name.endswith("scaling_impl.value"):
            return parameter
    return None


def gradients(output, *leaves):
    """Return the gradients of a sum of squares."""
    values = output.value if hasattr(output, "value") else output
    return torch.autograd.grad((values * values).sum(), leaves, allow_unused=True)


def plain(output):
    """Return the values of an output, whoever's it is."""
    return output.value if hasattr(output, "value") else output


def same_metadata(theirs, ours):
    """Say whether scale, zero point and widths of two quant tensors agree, bit for bit."""
    if not isinstance(ours, QuantTensor):
        return False
    names = ["scale", "zero_point"]
    names += (
        ["bit_width"]
        if hasattr(theirs, "bit_width")
        else ["exponent_bit_width", "mantissa_bit_width"]
    )
    return (
        all(bool((getattr(theirs, n) == getattr(ours, n)).all()) for n in names)
        and theirs.signed == ours.signed
    )


def step(*optimizers):
    """Let optimizers make a step, and forget gradients."""
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
