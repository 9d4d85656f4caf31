"""Names in torchao's safetensors files: parts of tensors, and the tensors that have them.

Since 0.15 a part of `a.weight` lies under `a._weight_qdata`, a plain tensor under its own name.
0.14 wrote `a.weight:qdata` and `a.bias:_data`. Source: flatten_tensor_state_dict in
torchao/prototype/safetensors/safetensors_support.py of these releases.
"""

from collections.abc import Mapping

from attrs import frozen

TENSOR_NAMES = "tensor_names"
"""Key of the metadata under which the names of all tensors stand, as a JSON list."""

PLAIN_TYPES = frozenset({"Tensor", "torch.Tensor", "Parameter"})
"""The `_type` of tensors without parts; torchao writes the first."""


@frozen
class Parts:
    """The inner tensors of a class.

    Args:
        required: every tensor of the class has them.
        optional: a tensor may have them.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


PARTS: Mapping[str, Parts] = {
    "Float8Tensor": Parts(("qdata", "scale")),
    "Int4PlainInt32Tensor": Parts(("qdata", "scale", "zero_point"), ("act_pre_scale",)),
    "Int4Tensor": Parts(("qdata", "scale", "zero_point"), ("act_pre_scale",)),
    "Int4TilePackedTo4dTensor": Parts(("qdata", "scale_and_zero"), ("act_pre_scale",)),
    "Int8Tensor": Parts(
        ("qdata", "scale"),
        ("zero_point", "act_quant_scale", "act_quant_zero_point", "act_pre_scale"),
    ),
    "IntxUnpackedToInt8Tensor": Parts(("qdata", "scale", "zero_point")),
    "MXTensor": Parts(("qdata", "scale")),
    "NVFP4Tensor": Parts(("qdata", "scale"), ("per_tensor_scale", "act_per_tensor_scale")),
}
"""The classes that torchao writes into safetensors files, with their inner tensors."""

_ALL_PARTS = frozenset(name for p in PARTS.values() for name in (*p.required, *p.optional))


def part_key(name: str, part: str) -> str:
    """Return the key of a part since torchao 0.15; a name without a dot has no module.

    Args:
        name: name of the tensor in the state_dict.
        part: name of the inner tensor.
    """
    return f"{part_prefix(name)}{part}"


def part_prefix(name: str) -> str:
    """Return what the keys of all parts of a tensor begin with, since torchao 0.15."""
    module, dot, parameter = name.rpartition(".")
    return f"{module}{dot}_{parameter}_"


def old_key(name: str, part: str) -> str:
    """Return the key of a part in torchao 0.14; `_data` is the part of a plain tensor."""
    return f"{name}:{part}"


def owner_of(key: str) -> str | None:
    """Return the tensor of which a key would be a part; None where it looks like none.

    The last word decides, so the answer is a guess for messages only.
    """
    owner, colon, part = key.rpartition(":")
    if colon and part in _ALL_PARTS | {"_data"}:
        return owner
    module, dot, last = key.rpartition(".")
    for part in sorted(_ALL_PARTS, key=len, reverse=True):
        if last.startswith("_") and last.endswith(f"_{part}") and len(last) > len(part) + 2:
            return f"{module}{dot}{last[1 : -len(part) - 1]}"
    return None
