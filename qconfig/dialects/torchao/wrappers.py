"""What published files put around torchao's config: `quantization_config.quant_type.default`."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from qconfig.codec import strict_json
from qconfig.dialects.torchao.legacy_names import LEGACY, legacy_envelope
from qconfig.dialects.torchao.notes import Note
from qconfig.dialects.torchao.skipped import Reach, reach_notes
from qconfig.errors import (
    FieldError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
    json_pointer,
    nearest,
    raise_problems,
)

_METHOD = ("quant_method", "method")
_SETTINGS = (
    "modules_to_not_convert",
    "include_input_output_embeddings",
    "untie_embedding_weights",
    "quant_type_kwargs",
)
_HARMLESS = ("model_type", "torchao_version", "quantization_config_file")
_TEXT = "quantization_config_dict_json"


@frozen
class Unwrapped:
    """A torchao config without what was around it.

    Args:
        data: the config in torchao's form.
        pointer: its JSON pointer.
        reach: which modules it reaches.
        notes: what was around it and is not carried.
        places: JSON pointers that lead elsewhere in the document than they say, longest first.
    """

    data: Any
    pointer: str
    reach: Reach = field(factory=Reach)
    notes: tuple[Note, ...] = ()
    places: tuple[tuple[str, str], ...] = ()

    def placed(self, pointer: str) -> str:
        """Return where in the document a pointer into the config leads."""
        for before, after in self.places:
            if pointer == before or pointer.startswith(before + "/"):
                return after + pointer[len(before) :]
        return pointer


def is_envelope(data: Any) -> bool:
    """Return whether a document is torchao's: a config of its own, or wrapped in a model's."""
    if not isinstance(data, Mapping):
        return False
    inner = data.get("quantization_config")
    wrapped = inner if isinstance(inner, Mapping) else data
    is_wrapped = "quant_type" in wrapped and "type" not in wrapped
    is_metadata = "tensor_names" in data and "type" not in data
    return (
        "_type" in data
        or is_wrapped
        or is_metadata
        or _TEXT in wrapped
        or any(wrapped.get(k) == "torchao" for k in _METHOD)
    )


def unwrap(data: Any) -> Unwrapped:
    """Return the config in a document that may be wrapped.

    Raises:
        FieldError: another quantization method, metadata of tensors, or no config in it.
        UnknownNameError: a string that was never the name of a config.
        UnknownFieldError: a key that nobody writes, or an argument that a name never had.
        DocumentSyntaxError: the text of quantization_config_dict_json is not JSON.
    """
    if not isinstance(data, Mapping) or "_type" in data:
        return Unwrapped(data, "")
    if "tensor_names" in data and "quant_type" not in data:
        raise FieldError(
            "the metadata of a safetensors file of torchao's, not a config",
            pointer="/tensor_names",
            found=data["tensor_names"],
            expected="an object with _type, or with quant_type",
            hint="upgrade or inspect the file itself: it is a checkpoint",
        )
    pointer = ""
    if isinstance(data.get("quantization_config"), Mapping):
        data, pointer = data["quantization_config"], "/quantization_config"
    if "quant_type" not in data:
        return _from_text(data, pointer) if _TEXT in data else Unwrapped(data, pointer)
    raise_problems([problem.at(pointer_prefix=pointer) for problem in _problems(data)])
    reach = Reach(
        tuple(data.get("modules_to_not_convert") or ()),
        bool(data.get("include_input_output_embeddings")),
    )
    notes = reach_notes(data, pointer)
    quant_type = data["quant_type"]
    if not isinstance(quant_type, str):
        return Unwrapped(quant_type["default"], f"{pointer}/quant_type/default", reach, notes)
    here = f"{pointer}/quant_type"
    envelope = legacy_envelope(quant_type, data.get("quant_type_kwargs") or {})
    if quant_type == "float8wo":
        notes = (*notes, Note(here, "diffusers' name for float8_e5m2 weights"))
    places = ((f"{here}/_data", f"{pointer}/quant_type_kwargs"), (f"{here}/_type", here))
    return Unwrapped(envelope, here, reach, notes, places)


def _from_text(wrapper: Mapping[str, Any], pointer: str) -> Unwrapped:
    """Return the config in a text of JSON, which is how vLLM takes one."""
    here = f"{pointer}/{_TEXT}"
    if not isinstance(wrapper[_TEXT], str):
        raise FieldError("not a text", pointer=here, found=wrapper[_TEXT], expected="JSON text")
    try:
        found = unwrap(strict_json.loads(wrapper[_TEXT].encode()))
    except QconfigError as error:
        raise error.at(pointer_prefix=here) from None
    return Unwrapped(found.data, here + found.pointer, found.reach, found.notes)


def _problems(wrapper: Mapping[str, Any]) -> list[QconfigError]:
    problems: list[QconfigError] = []
    for key, value in wrapper.items():
        if key in _METHOD and value != "torchao":
            problems.append(
                FieldError(
                    "another quantization method",
                    pointer=f"/{key}",
                    found=value,
                    expected="torchao",
                )
            )
        elif key not in {*_METHOD, *_SETTINGS, *_HARMLESS, "quant_type"}:
            problems.append(
                UnknownFieldError(
                    "unknown field",
                    pointer=json_pointer(key),
                    found=key,
                    expected="one of " + ", ".join([*_METHOD, "quant_type", *_SETTINGS]),
                )
            )
    skipped = wrapper.get("modules_to_not_convert")
    if skipped is not None and not (
        isinstance(skipped, list) and all(isinstance(name, str) for name in skipped)
    ):
        problems.append(
            FieldError(
                "wrong type",
                pointer="/modules_to_not_convert",
                found=skipped,
                expected="an array of strings, or null",
            )
        )
    quant_type = wrapper["quant_type"]
    if isinstance(quant_type, str):
        problems += _legacy_problems(quant_type, wrapper.get("quant_type_kwargs") or {})
    elif not isinstance(quant_type, Mapping) or list(quant_type) != ["default"]:
        problems.append(
            FieldError(
                "quant_type is not a config",
                pointer="/quant_type",
                found=quant_type,
                expected='{"default": {"_type": …, "_version": …, "_data": {…}}}',
            )
        )
    elif wrapper.get("quant_type_kwargs"):
        problems.append(
            FieldError(
                "arguments belong to the name of a function, and quant_type is a config",
                pointer="/quant_type_kwargs",
                found=wrapper["quant_type_kwargs"],
                expected="null, empty or absent",
                hint="write the arguments into the config",
            )
        )
    return problems


def _legacy_problems(name: str, arguments: Any) -> list[QconfigError]:
    if name == "autoquant":
        return [
            FieldError(
                "autoquant chose a config for each layer while it ran",
                pointer="/quant_type",
                found=name,
                hint="the tensors of its checkpoint say what was chosen; write an FqnToConfig",
            )
        ]
    if name not in LEGACY:
        return [
            UnknownNameError(
                "unknown name of a torchao function",
                pointer="/quant_type",
                found=name,
                expected="one of " + ", ".join(sorted(LEGACY)),
                hint=nearest(name, LEGACY),
            )
        ]
    if not isinstance(arguments, Mapping):
        return [
            FieldError(
                "wrong type", pointer="/quant_type_kwargs", found=arguments, expected="an object"
            )
        ]
    allowed = LEGACY[name].arguments
    return [
        UnknownFieldError(
            "unknown argument",
            pointer="/quant_type_kwargs" + json_pointer(key),
            found=key,
            expected=f"an argument of {name}: " + (", ".join(allowed) or "none"),
        )
        for key in arguments
        if key not in allowed
    ]
