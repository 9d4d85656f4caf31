"""Fields of torchao's that nothing of today says, where they say something: one note each."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

from qconfig.versioning import Entry

Found = Iterator[tuple[str, str]]


@frozen
class Read:
    """A document as it was recognised.

    Args:
        entry: the version of ours.
        wire_name: its `_type`.
        wire_version: its `_version`, or None.
        data: its fields.
    """

    entry: Entry
    wire_name: str
    wire_version: Any
    data: Mapping[str, Any]

    def member(self, name: str) -> str:
        """Return a field's enum member or the type of its object, in capitals; "" for neither."""
        value = self.data.get(name)
        if isinstance(value, Mapping):
            member = value.get("_data")
            value = member if isinstance(member, str) else value.get("_type")
        return value.upper() if isinstance(value, str) else ""


_DECODE = (
    "torchao left the activation of a single token as it was; no config says so any more, and it "
    "is quantized like all others"
)
_UNUSED = "torchao did not use it under its version 1: a scale a token and a row is taken"


def _int8_dynamic(read: Read) -> Found:
    if read.entry.version > 3:
        return
    if read.data.get("weight_only_decode") is True:
        yield "weight_only_decode", _DECODE
    if read.data.get("granularity") is not None and read.member("granularity") != "PERROW":
        yield "granularity", _UNUSED


def _int4(read: Read) -> Found:
    version_1 = read.entry.version < 3 or read.wire_version == 1
    layout, packing = read.member("layout"), read.member("int4_packing_format")
    is_opaque = layout == "INT4CPULAYOUT" if version_1 else packing == "OPAQUE"
    if is_opaque:
        yield (
            "layout" if version_1 else "int4_packing_format",
            "codes lie as torch's product on CPUs reads them; here they are PLAIN",
        )
    tiles = read.data.get("layout")
    fields = tiles.get("_data") if isinstance(tiles, Mapping) else None
    if isinstance(fields, Mapping) and fields.get("inner_k_tiles", 8) != 8:
        yield "layout", "inner_k_tiles says where codes lie and not what they are: not carried"
    for name in ("use_hqq", "preserve_zero"):
        if not version_1 and read.data.get(name):
            yield name, "torchao did not use it under its version 2"


def _int8_int4(read: Read) -> Found:
    if read.member("layout") == "INT8DYNAMICACTINT4WEIGHTCPULAYOUT":
        yield (
            "layout",
            "weights for CPUs were asymmetric, whatever mapping_type said, and are so here",
        )
    if read.entry.version > 1:
        text = "as in torchao 0.17 and later, weights are asymmetric and have float32 scales"
        is_vague = set(read.data) != {"group_size", "act_mapping_type", "set_inductor_config"}
        yield "", text + "; up to 0.16 they were symmetric" if is_vague else text


def _mx(read: Read) -> Found:
    if read.wire_name == "MXFPInferenceConfig":
        if read.member("gemm_kernel_choice") == "CUTLASS":
            yield "gemm_kernel_choice", "any kernel may multiply: CUTLASS alone cannot be asked for"
        yield "", "scales were rounded by FLOOR then, which scaling_mode says"


def _nvfp4(read: Read) -> Found:
    if read.wire_name == "NVFP4InferenceConfig" and "use_dynamic_per_tensor_scale" not in read.data:
        yield "", "torchao 0.12 and 0.13 had no scale of the whole tensor, which is said here"


_NOTES: Mapping[str, Callable[[Read], Found]] = {
    "Int4WeightOnlyConfig": _int4,
    "Int8DynamicActivationInt4WeightConfig": _int8_int4,
    "Int8DynamicActivationInt8WeightConfig": _int8_dynamic,
    "MXDynamicActivationMXWeightConfig": _mx,
    "NVFP4DynamicActivationNVFP4WeightConfig": _nvfp4,
    "NVFP4WeightOnlyConfig": _nvfp4,
}

_CALIBRATED = "a result of one layer's calibration, which is in that layer's weights: not carried"
NOT_CARRIED: Mapping[str, Mapping[str, str]] = {
    "SmoothQuantConfig": dict.fromkeys(("smoothing_factor", "wei_scales"), _CALIBRATED),
}
"""Fields, by config, that are left out with a note unless they are null."""


def field_notes(read: Read) -> Found:
    """Yield fields and what is not carried of them, or assumed; "" is the document as a whole."""
    if read.entry.name in _NOTES:
        yield from _NOTES[read.entry.name](read)
    if read.wire_version is None:
        yield "", f"no _version: its fields are read as those of {read.entry}"
