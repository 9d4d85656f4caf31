"""Keys of quantizers in state_dicts of Brevitas, taken apart; 0.8 to 0.13 name them alike.

`<layer>.<role>_quant.[fused_activation_quant_proxy.]tensor_quant.<part>`, where `<part>` names what
is kept of a scale, a zero point or a bit width.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum, unique

from attrs import frozen

_ROLE = r"(?:^|\.)(?P<role>[a-z][a-z0-9_]*_quant(?:_proxy)?)\."
_KEY = re.compile(
    r"(?P<layer>.*?)" + _ROLE + r"(?:fused_activation_quant_proxy\.)?"
    r"(?:(?P<inner>tensor_quant|export_handler)\.)?(?P<part>[A-Za-z0-9_.]+)",
    re.DOTALL,
)
_LONGEST = 4096


@unique
class Kind(Enum):
    """What a key of a quantizer is."""

    THRESHOLD = "threshold"
    ZERO_POINT = "zero_point"
    RUNNING = "running"
    AFFINE_WEIGHT = "affine_weight"
    AFFINE_BIAS = "affine_bias"
    OFFSET = "offset"
    CONST_BITS = "const_bits"
    THRESHOLD_BUFFER = "threshold_buffer"
    ZERO_POINT_BUFFER = "zero_point_buffer"
    HANDLER = "handler"
    SENTINEL = "sentinel"
    FLAG = "flag"
    OTHER = "other"


_BITS = ("msb_clamp_bit_width_impl", "bit_width_impl")
_AFFINE = "scaling_impl.stats_scaling_impl.affine_rescaling"
_PARTS: Mapping[str, Kind] = {
    "scaling_impl.value": Kind.THRESHOLD,
    "scaling_impl.learned_value": Kind.THRESHOLD,
    "zero_point_impl.value": Kind.ZERO_POINT,
    "scaling_impl.runtime_stats.running_stats": Kind.RUNNING,
    f"{_AFFINE}.affine_weight": Kind.AFFINE_WEIGHT,
    f"{_AFFINE}.affine_bias": Kind.AFFINE_BIAS,
    "scaling_impl.buffer": Kind.THRESHOLD_BUFFER,
    "zero_point_impl.buffer": Kind.ZERO_POINT_BUFFER,
    **{f"{bits}.bit_width_offset": Kind.OFFSET for bits in _BITS},
    **{f"{bits}.bit_width": Kind.CONST_BITS for bits in _BITS},
}
_ROLES: Mapping[str, str] = {"act_quant_proxy": "act_quant"}
"""Names of roles that changed, by their old names."""


@frozen
class QuantizerKey:
    """A key of a quantizer.

    Args:
        name: the whole key.
        layer: name of the module; "" for the root.
        role: `weight_quant`, `input_quant`, `act_quant` or the like, by its name of today.
        kind: what it holds.
        part: what stands behind the quantizer.
    """

    name: str
    layer: str
    role: str
    kind: Kind
    part: str

    @property
    def quantizer(self) -> str:
        """Name of the quantizer module."""
        return dotted(self.layer, self.role)

    def of(self, name: str) -> str:
        """Return the key of our quantizer's public name."""
        return f"{self.quantizer}.{name}"


def dotted(layer: str, *parts: str) -> str:
    """Return the name of something in a layer; the root, "", has no name before it."""
    return ".".join((layer, *parts) if layer else parts)


def parsed(name: str) -> QuantizerKey | None:
    """Return a key taken apart; None for one that is not of a quantizer of Brevitas."""
    match = _KEY.fullmatch(name) if len(name) <= _LONGEST else None
    if match is None:
        return None
    layer, part, inner = match["layer"], match["part"], match["inner"]
    role = _ROLES.get(match["role"], match["role"])
    # RNNs and attention hold quantizers in modules that are named like roles.
    nested = parsed(part) if inner is None else None
    if nested is not None:
        prefix = dotted(layer, match["role"])
        inner_layer = f"{prefix}.{nested.layer}" if nested.layer else prefix
        return QuantizerKey(name, inner_layer, nested.role, nested.kind, nested.part)
    kind = _kind(inner, part)
    return None if kind is None else QuantizerKey(name, layer, role, kind, part)


def _kind(inner: str | None, part: str) -> Kind | None:
    last = part.rpartition(".")[2]
    if last == "zero_hw_sentinel" or part.startswith("_zero_hw_sentinel"):
        return Kind.SENTINEL
    if inner == "export_handler":
        return Kind.HANDLER
    if inner is None:
        return None
    if last == "training":
        return Kind.FLAG
    return _PARTS.get(part, Kind.OTHER)


def has_quantizers(names: Iterable[object]) -> bool:
    """Return whether some keys are of quantizers of Brevitas."""
    return any(isinstance(name, str) and parsed(name) is not None for name in names)
