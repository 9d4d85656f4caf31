"""torchao 0.18's int8 tensors with quantized activations, as an oracle."""

from typing import Any

import torch

from tests.tensors.torchao_peer import torchao_int8


def _kinds(*, per_token: bool, asymmetric: bool) -> tuple[Any, Any]:
    theirs, granularity = torchao_int8()
    del theirs
    from torchao.quantization.quant_primitives import MappingType

    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    return granularity.PerRow() if per_token else granularity.PerTensor(), mapping


def quantized(
    activation: torch.Tensor,
    per_token: bool,
    asymmetric: bool,
    reduce_range: bool,
    scale: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
) -> Any:
    """Return torchao's Int8Tensor of an activation: its codes, scales and zero points."""
    kind, mapping = _kinds(per_token=per_token, asymmetric=asymmetric)
    return torchao_int8()[0].from_hp(
        activation,
        kind,
        mapping_type=mapping,
        scale=scale,
        zero_point=zero_point,
        reduce_range=reduce_range,
    )


def weight_with_activation(
    weight: torch.Tensor,
    weight_per_tensor: bool,
    per_token: bool,
    asymmetric: bool,
    reduce_range: bool = False,
    **fields: Any,
) -> Any:
    """Return torchao's Int8Tensor of a weight that quantizes its activations."""
    kind, mapping = _kinds(per_token=per_token, asymmetric=asymmetric)
    theirs, granularity = torchao_int8()
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import (
        QuantizeTensorToInt8Kwargs,
    )

    return theirs.from_hp(
        weight,
        granularity.PerTensor() if weight_per_tensor else granularity.PerRow(),
        act_quant_kwargs=QuantizeTensorToInt8Kwargs(kind, mapping, reduce_range),
        reduce_range=reduce_range,
        **fields,
    )
