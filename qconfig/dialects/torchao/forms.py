"""Which of our versions torchao's `_version` numbers stand for."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import attrs
from attrs import NOTHING, frozen

from qconfig.checkpoints.writer import Writer
from qconfig.dialects.torchao.replaced import REPLACED
from qconfig.errors import FieldError, NewerVersionError, UnknownNameError, shown
from qconfig.versioning import Entry, registry


@frozen
class Form:
    """One of our versions that torchao wrote.

    Args:
        version: our version.
        wire: the `_version` numbers under which torchao wrote that set of fields, ascending.
        names: the class names that torchao used for it; empty for the registered name and any
            earlier one.
        ours: fields of our version that torchao's did not have.
        enums: names of enums that only this form had among those with the same fields.
        since: torchao's first release with this form, where fields alone may not tell.
    """

    version: int
    wire: tuple[int, ...]
    names: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    enums: tuple[str, ...] = ()
    since: tuple[int, int] = (0, 0)


@frozen
class Written:
    """What a document says about its form.

    Args:
        wire_name: its `_type`.
        wire_version: its `_version`; None where it has none.
        keys: keys of `_data`, by the names of today.
        types: the `_type` of each value that has one.
    """

    wire_name: str
    wire_version: Any
    keys: frozenset[str]
    types: frozenset[str] = frozenset()


NEWEST = (0, 18)
"""The newest release of torchao whose files are known."""

DTYPE = "torch.dtype"
"""The `_type` of a dtype."""

TORCHAO_VERSION = "torchao_version"
"""The field of our versions in which torchao's own `_version` says which other fields count."""

_ALGORITHM = "uintx_choose_qparams_algorithm"
NVFP4_INFERENCE = "NVFP4InferenceConfig"
"""Two of our configs in one of torchao's: its mm_config says which."""

FORMS: Mapping[str, tuple[Form, ...]] = {
    "AWQConfig": (
        Form(1, (1,), names=("AWQUIntXConfig",)),
        Form(2, (1,), names=("AWQUIntXConfig",)),
        Form(3, (1,), names=("AWQConfig",), enums=("AWQStep",)),
        Form(4, (1,), names=("AWQConfig",)),
    ),
    "Float8DynamicActivationFloat8WeightConfig": (
        Form(1, (1,)),
        Form(2, (1, 2)),
        Form(3, (1, 2)),
        Form(4, (1, 2)),
    ),
    "Float8DynamicActivationInt4WeightConfig": (Form(1, (1,)), Form(2, (1,))),
    "Float8StaticActivationFloat8WeightConfig": (Form(1, (1,)), Form(2, (1,))),
    "Float8WeightOnlyConfig": (Form(1, (1,)), Form(2, (2,)), Form(3, (1, 2))),
    "FqnToConfig": (Form(1, (1,)),),
    "Int4WeightOnlyConfig": (
        Form(1, (1,)),
        Form(2, (1,)),
        Form(3, (1, 2), ours=(TORCHAO_VERSION,)),
        Form(4, (1, 2), ours=(TORCHAO_VERSION,)),
        Form(5, (2,)),
        Form(6, (2,)),
    ),
    "Int8DynamicActivationInt4WeightConfig": (
        Form(1, (1,)),
        Form(2, (1,), ours=("mapping_type", "weight_scale_dtype"), since=(0, 17)),
    ),
    "Int8DynamicActivationInt8WeightConfig": (
        Form(1, (1,)),
        # What 0.15 and 0.16 wrote, our 2, is read as what 0.17 wrote, which holds all of it.
        Form(3, (1,)),
        Form(4, (2,)),
        Form(5, (2,)),
    ),
    "Int8DynamicActivationIntxWeightConfig": (
        Form(1, (1,)),
        Form(2, (1,)),
        Form(3, (1, 2), ours=(TORCHAO_VERSION,)),
        Form(4, (1, 2)),
    ),
    "Int8DynamicActivationUIntxWeightConfig": (Form(1, (1,)),),
    "Int8StaticActivationInt8WeightConfig": (Form(1, (1,)), Form(2, (1,)), Form(3, (1,))),
    "Int8WeightOnlyConfig": (Form(1, (1,)), Form(2, (1, 2))),
    "IntxWeightOnlyConfig": (
        Form(1, (1,)),
        Form(2, (1, 2)),
        Form(3, (1, 2)),
        Form(4, (1, 2)),
    ),
    "MXDynamicActivationMXWeightConfig": (
        Form(1, (1,), names=("MXFPInferenceConfig",)),
        Form(2, (1,), names=("MXDynamicActivationMXWeightConfig",), ours=("scaling_mode",)),
        Form(3, (1,), names=("MXDynamicActivationMXWeightConfig",)),
    ),
    "NF4WeightOnlyConfig": (Form(1, (1,)),),
    "NVFP4DynamicActivationNVFP4WeightConfig": (
        Form(1, (1,), names=(NVFP4_INFERENCE,)),
        Form(2, (1,), names=(NVFP4_INFERENCE,)),
        Form(3, (1,), names=("NVFP4DynamicActivationNVFP4WeightConfig",)),
        Form(4, (1,), names=("NVFP4DynamicActivationNVFP4WeightConfig",)),
    ),
    "NVFP4WeightOnlyConfig": (
        Form(1, (1,), names=(NVFP4_INFERENCE,), ours=("use_dynamic_per_tensor_scale",)),
        Form(2, (1,), names=(NVFP4_INFERENCE,)),
        Form(3, (1,), names=("NVFP4WeightOnlyConfig",)),
    ),
    "QATConfig": (Form(1, (1,)),),
    "SmoothQuantConfig": (
        Form(1, (1,)),
        Form(2, (1,), enums=("SmoothQuantStep",)),
        Form(3, (1,)),
        Form(4, (1,)),
    ),
    "UIntxWeightOnlyConfig": (
        Form(1, (1,), names=("UIntXWeightOnlyConfig",)),
        Form(2, (1,), names=("GemliteUIntXWeightOnlyConfig",), ours=(_ALGORITHM,)),
        Form(3, (1,), names=("GemliteUIntXWeightOnlyConfig",), ours=(_ALGORITHM,)),
        Form(
            4,
            (1,),
            names=("UIntxWeightOnlyConfig",),
            ours=("packing_bitwidth", "set_inductor_config"),
        ),
        Form(5, (1,), names=("UIntxWeightOnlyConfig",), ours=(_ALGORITHM,)),
    ),
}
"""The forms of each config that torchao has, oldest first; the last is what torchao 0.18 reads."""

ALIASES: Mapping[str, str] = {
    "GemliteUIntXWeightOnlyConfig": "UIntxWeightOnlyConfig",
    "UIntXWeightOnlyConfig": "UIntxWeightOnlyConfig",
    "AOPerModuleConfig": "FqnToConfig",
    "AWQUIntXConfig": "AWQConfig",
    "MXFPInferenceConfig": "MXDynamicActivationMXWeightConfig",
    "ModuleFqnToConfig": "FqnToConfig",
    NVFP4_INFERENCE: "NVFP4DynamicActivationNVFP4WeightConfig",
}
"""Earlier names of torchao's."""

FIELD_ALIASES: Mapping[str, Mapping[str, str]] = {
    "FqnToConfig": {"module_fqn_to_config": "fqn_to_config"},
}
"""Earlier names of fields, by config; torchao 0.15 and later write both, with one value."""

MEMBER_ALIASES: Mapping[str, Mapping[str, str]] = {
    "Float8PackingFormat": {"SPARSE_CUTLASS": "SPARSE_2D_DATA_2D_METADATA"},
    "KernelPreference": {"FBGEMM": "MSLK"},
}
"""Earlier names of enum members, by enum."""

FILLED: Mapping[tuple[str, int], Mapping[str, str]] = {
    ("Float8DynamicActivationInt4WeightConfig", 2): {"int4_packing_format": "PRESHUFFLED"},
    ("Int8DynamicActivationInt4WeightConfig", 2): {
        "mapping_type": "ASYMMETRIC",
        "weight_scale_dtype": "float32",
    },
}
"""What torchao means, by version of ours, where our own default or a field of ours says else."""

NULL_IS_DEFAULT: Mapping[str, frozenset[str]] = {
    "Float8DynamicActivationFloat8WeightConfig": frozenset({"granularity", "packing_format"}),
    "Float8WeightOnlyConfig": frozenset({"granularity"}),
    "Int8DynamicActivationInt8WeightConfig": frozenset({"granularity", "reduce_range"}),
    "Int8StaticActivationInt8WeightConfig": frozenset({"granularity", "reduce_range"}),
}
"""Fields, by config, for which torchao takes null as their default and ours takes no null."""

LOWER_CASE_STEPS = frozenset(
    {
        "AWQConfig",
        "Float8StaticActivationFloat8WeightConfig",
        "NVFP4DynamicActivationNVFP4WeightConfig",
        "QATConfig",
        "SmoothQuantConfig",
    }
)
"""Configs whose step is written as a string, such as "prepare": torchao cannot read its enum."""


def name_of(wire_name: Any, data: Mapping[str, Any]) -> str:
    """Return the registered name for torchao's.

    Args:
        wire_name: the `_type`.
        data: the fields.

    Raises:
        UnknownNameError: torchao has no such config, or qconfig does not read it yet.
    """
    name = ALIASES.get(wire_name, wire_name) if isinstance(wire_name, str) else None
    if name not in FORMS:
        known = sorted({*FORMS, *ALIASES, *REPLACED})
        raise UnknownNameError(
            "unknown torchao config",
            pointer="/_type",
            found=wire_name,
            expected="one of " + ", ".join(known),
            hint=_near_name(str(wire_name), known),
        )
    if wire_name == NVFP4_INFERENCE and _member(data.get("mm_config")) == "WEIGHT_ONLY":
        return "NVFP4WeightOnlyConfig"
    return str(name)


def _member(value: Any) -> str | None:
    member = value.get("_data") if isinstance(value, Mapping) else value
    return member.upper() if isinstance(member, str) else None


def _near_name(wire_name: str, known: list[str]) -> str | None:
    # Names of torchao's differ by one character (Int4…, Int8…), so that only a slip is close.
    close = get_close_matches(wire_name.rpartition(".")[2], known, n=1, cutoff=0.96)
    return f"did you mean {close[0]!r}?" if close else None


def entry_for(name: str, written: Written, *, writer: Writer | None = None) -> Entry:
    """Return the version of a config that torchao wrote in this way.

    Args:
        name: the registered name.
        written: what the document says about its form.
        writer: the release that wrote it, if known: forms that are newer are not taken.

    Raises:
        NewerVersionError: a `_version` that this release does not know yet.
        FieldError: a `_version` that is no integer or never was.
    """
    forms, wire_version = FORMS[name], written.wire_version
    numbers = sorted({number for form in forms for number in form.wire})
    supported = f"{name} _version {numbers[0]} to {numbers[-1]}"
    if wire_version is not None and type(wire_version) is not int:
        raise FieldError(
            "_version must be an integer",
            pointer="/_version",
            found=wire_version,
            expected=supported,
        )
    if wire_version is not None and wire_version not in numbers:
        is_newer = wire_version > numbers[-1]
        message = f"{name} _version {shown(wire_version)} is newer than this qconfig"
        raise (NewerVersionError if is_newer else FieldError)(
            message if is_newer else "unknown _version",
            pointer="/_version",
            found=wire_version,
            expected=supported,
            hint="upgrade qconfig" if is_newer else None,
        )
    known = [form for form in forms if not form.names or written.wire_name in form.names] or forms
    if writer is not None and writer.library == "torchao":
        known = [form for form in known if form.since <= writer.release] or known
    fitting = [form for form in known if wire_version is None or wire_version in form.wire]
    best = max(fitting or known, key=lambda form: _rank(name, form, written))
    return registry.get(name, best.version)


def _rank(name: str, form: Form, written: Written) -> tuple[Any, ...]:
    # Without a `_version`, nothing says which fields count where two versions shared a form.
    is_vague = written.wire_version is None and TORCHAO_VERSION in form.ours
    has_enum = not written.types.isdisjoint(form.enums)
    return (_fit(name, form, written.keys), has_enum, not is_vague, form.version)


def _fit(name: str, form: Form, keys: frozenset[str]) -> int:
    """Return 2 for exactly these keys, 1 for keys that the version can have, else 0."""
    fields = attrs.fields(registry.get(name, form.version).cls)
    names = {field.name for field in fields} - set(form.ours)
    required = {field.name for field in fields if field.default is NOTHING}
    return 2 if keys == names else int(required <= keys <= names)
