"""Steps about bit widths: learned ones, and constants that were saved."""

from typing import TYPE_CHECKING, Any

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.fields import number_of
from qconfig.dialects.brevitas.quantizer_keys import Kind, QuantizerKey
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.dialects.brevitas.steps_dropped import differs
from qconfig.errors import CheckpointError

if TYPE_CHECKING:
    import torch

LEARNED = "bit_width"
"""Public name of a learned bit width."""

_OFFSET = "the learned offset and the {} bits that it starts from, added up"
_CONST_IS_LEARNED = "a constant that the config has learned from here on"
_LEARNED_IS_CONST = "learned, and a constant in the config, which has the same {:g} bits"
_CONST = "a constant, which the config has: {:g}"


def with_bit_widths(stage: Stage, settings: Settings) -> Stage:
    """Turn learned offsets into bit widths; compare constants with the config and leave them out.

    A learned width of ours is the offset plus `min_bit_width`, with its sign, so that values and
    gradients are those of Brevitas, which takes the absolute value of the offset.
    """
    for key in stage.quantizer_keys():
        if key.kind in (Kind.OFFSET, Kind.CONST_BITS):
            config: Any = settings.config_of(key.layer, key.role)
            if not hasattr(config, "bit_width"):
                continue  # it is told elsewhere that there is no config, or one without bits
            stage = _converted(stage, key, config)
    return stage


def _converted(stage: Stage, key: QuantizerKey, config: Any) -> Stage:
    tensor = stage.state[key.name]
    if tensor.shape not in ((), (1,)):
        error = CheckpointError(
            "a bit width is not one number", fqn=key.name, found=tensor, expected="shape ()"
        )
        return stage.without([key.name]).noting(problems=[error])
    stored = number_of(tensor)
    is_offset = key.kind is Kind.OFFSET
    bits = abs(stored) + config.min_bit_width if is_offset else stored
    if not config.min_bit_width <= bits <= 64:
        error = differs(key, bits, config.bit_width, "bit_width")
        return stage.without([key.name]).noting(problems=[error])
    if config.learned_bit_width:
        return _learned(stage, key, tensor, config)
    used = float(round(bits))
    if used != config.bit_width:
        error = differs(key, used, config.bit_width, "bit_width")
        return stage.without([key.name]).noting(problems=[error])
    why = (_LEARNED_IS_CONST if is_offset else _CONST).format(used)
    return stage.without([key.name]).noting([Change(Done.DROPPED, (key.name,), None, why)])


def _learned(stage: Stage, key: QuantizerKey, tensor: LazyTensor, config: Any) -> Stage:
    new = key.of(LEARNED)
    if key.kind is Kind.CONST_BITS:
        change = Change(Done.RENAMED, (key.name,), new, _CONST_IS_LEARNED)
        return stage.replaced(key.name, new, tensor.reshape()).noting([change])

    import torch

    def added(offset: "torch.Tensor") -> "torch.Tensor":
        return torch.add(offset, float(config.min_bit_width)).reshape(())

    change = Change(Done.DERIVED, (key.name,), new, _OFFSET.format(config.min_bit_width))
    return stage.replaced(key.name, new, tensor.map(added, shape=())).noting([change])
