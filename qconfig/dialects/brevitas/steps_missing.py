"""Steps about what a state_dict lacks, and whether what it has fits its config."""

from math import prod
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.quant_choices import ScaleKind
from qconfig.dialects.brevitas.expectations import BIAS, WEIGHT, saved_names, threshold_shape
from qconfig.dialects.brevitas.quantizer_keys import dotted
from qconfig.dialects.brevitas.selection import first_word, selects
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.errors import CheckpointError, QconfigError, UsageError

if TYPE_CHECKING:
    import torch

ERROR, INITIALISE, DERIVE = "error", "initialise", "derive"
WORDS = (ERROR, INITIALISE, DERIVE)

_INITIALISED = "the file lacks it; the model keeps what it begins with"
_NOT_CALIBRATED = f"{_INITIALISED}, which no data has calibrated"
_DERIVED = "the file lacks it; computed from the weight as the config says"
_FROM_CONFIG = "the file lacks it; what the config begins with"
_EXPANDED = "one number for each channel in place of one for all, as was asked for"
_OLD_NAMES = {
    "threshold": "tensor_quant.scaling_impl.value",
    "statistic": "tensor_quant.scaling_impl.runtime_stats.running_stats",
    "zero_point": "tensor_quant.zero_point_impl.value",
    "zero_point_statistic": "tensor_quant.zero_point_impl.value",
    "bit_width": "tensor_quant.msb_clamp_bit_width_impl.bit_width_offset",
}
_FUSED = "fused_activation_quant_proxy."
_UNCALIBRATED = (
    "a quantizer that has seen no data yet was saved without it; load_state_dict of Brevitas "
    "refuses it, too"
)


def check_words(settings: Settings) -> None:
    """Check the policies.

    Raises:
        UsageError: one of another word.
    """
    for pattern, word in settings.missing.items():
        if word not in WORDS:
            raise UsageError(
                f"unknown policy for {pattern}", found=word, expected="one of " + ", ".join(WORDS)
            )


def with_missing(stage: Stage, settings: Settings) -> Stage:
    """Do for each missing tensor what the first policy for its name says, by default refuse.

    Patterns match the new name, or the old one.
    """
    for layer, roles in settings.reached.items():
        for role in roles:
            config: Any = settings.config_of(layer, role)
            if config is None or config.scale_kind is ScaleKind.EXTERNAL:
                continue
            for public in saved_names(config, role):
                if dotted(layer, role, public) not in stage.state:
                    stage = _filled(stage, settings, config, (layer, role, public))
    return stage


def _filled(stage: Stage, settings: Settings, config: Any, place: tuple[str, str, str]) -> Stage:
    layer, role, public = place
    name = dotted(layer, role, public)
    fused = "" if role in (WEIGHT, BIAS) else _FUSED
    old = dotted(layer, role, fused + _OLD_NAMES[public])
    word = first_word(settings.missing, name, old) or ERROR
    if word == INITIALISE:
        why = _INITIALISED if role == WEIGHT else _NOT_CALIBRATED
        return stage.noting([Change(Done.INITIALISED, (), name, why)])
    derived = _derived(stage, config, place) if word == DERIVE else None
    if derived is None:
        return stage.noting(problems=[_lacks(name, role, word)])
    tensor, why = derived
    return stage.adding({name: tensor}).noting([Change(Done.DERIVED, (), name, why)])


def _lacks(name: str, role: str, word: str) -> QconfigError:
    if word == DERIVE:
        return CheckpointError(
            "nothing in the file says what is missing",
            fqn=name,
            found=f"the policy {DERIVE}",
            expected=f"the policy {INITIALISE}, which leaves an activation uncalibrated",
            hint="calibrate it, or train, after it was loaded: only weights show their scales",
        )
    return CheckpointError(
        "the file lacks a tensor of a quantizer",
        fqn=name,
        expected=f"a policy for it: {INITIALISE}, or for weights {DERIVE}",
        hint=None if role == WEIGHT else _UNCALIBRATED,
    )


def _derived(
    stage: Stage, config: Any, place: tuple[str, str, str]
) -> tuple[LazyTensor, str] | None:
    layer, role, public = place
    weight = stage.state.get(dotted(layer, "weight"))
    if public == "bit_width":
        dtype = weight.dtype if weight is not None and weight.dtype.is_float else DType.FLOAT32
        return _constant(float(config.bit_width), dtype), _FROM_CONFIG
    if role != WEIGHT or weight is None or not prod(weight.shape) or not weight.dtype.is_float:
        return None
    from qconfig.tensors.quantizers.weights import first_threshold, first_zero_point

    shape = threshold_shape(config, weight.shape)
    if shape is None:
        return None
    first = first_threshold if public == "threshold" else first_zero_point

    def computed(values: "torch.Tensor") -> "torch.Tensor":
        found: Any = first(values, config)  # there is one, for it is learned
        result: torch.Tensor = found.reshape(shape)
        return result

    return weight.map(computed, shape=shape), _DERIVED


def _constant(number: float, dtype: DType) -> LazyTensor:
    import torch

    return LazyTensor.of(torch.tensor(number, dtype=dtype.to_torch()))


def with_shapes(stage: Stage, settings: Settings) -> Stage:
    """Check the shapes of thresholds and zero points; expand single ones where that was asked."""
    for layer, roles in settings.reached.items():
        weight = stage.state.get(dotted(layer, "weight"))
        for role in roles:
            config = settings.config_of(layer, role)
            for public in ("threshold", "zero_point", "statistic", "zero_point_statistic"):
                name = dotted(layer, role, public)
                if config is not None and name in stage.state:
                    shape = weight.shape if weight is not None and role == WEIGHT else None
                    stage = _shaped(stage, settings, name, threshold_shape(config, shape))
    return stage


def _shaped(stage: Stage, settings: Settings, name: str, expected: tuple[int, ...] | None) -> Stage:
    tensor = stage.state[name]
    if settings.shapes is not None:
        expected = settings.shapes.get(name, expected)
    if expected is None or tensor.shape == expected:
        return stage
    if prod(tensor.shape) == prod(expected) == 1:
        return stage.replaced(name, name, tensor.reshape(*expected))
    if prod(tensor.shape) == 1 and selects(settings.expanded, name):
        target: tuple[int, ...] = expected

        def expanded(values: "torch.Tensor") -> "torch.Tensor":
            return values.reshape(()).expand(target).contiguous()

        change = Change(Done.EXPANDED, (name,), name, _EXPANDED)
        return stage.replaced(name, name, tensor.map(expanded, shape=target)).noting([change])
    error = CheckpointError(
        "the file has scales of another shape than the config",
        fqn=name,
        found=f"shape {tensor.shape}",
        expected=f"shape {expected}",
        hint="ask for it to be expanded" if prod(tensor.shape) == 1 else None,
    )
    return stage.noting(problems=[error])
