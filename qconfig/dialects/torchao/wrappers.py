"""What published files put around torchao's config: `quantization_config.quant_type.default`."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from qconfig.errors import FieldError, QconfigError, UnknownFieldError, raise_problems

_METHOD = ("quant_method", "method")
# These say something only where they are set; null, false and empty say nothing.
_EXTRAS = {
    "modules_to_not_convert": "write an FqnToConfig with null for these modules",
    "include_input_output_embeddings": "write an FqnToConfig with entries for the embeddings",
    "untie_embedding_weights": "untie the weights in the checkpoint",
    "quant_type_kwargs": "write the arguments into the config",
}


@frozen
class Unwrapped:
    """A torchao config without what was around it, and its JSON pointer."""

    data: Any
    pointer: str


def is_envelope(data: Any) -> bool:
    """Return whether a document is torchao's: a config of its own, or wrapped in a model's."""
    if not isinstance(data, Mapping):
        return False
    inner = data.get("quantization_config")
    wrapped = inner if isinstance(inner, Mapping) else data
    is_wrapped = "quant_type" in wrapped and "type" not in wrapped
    return "_type" in data or is_wrapped or any(wrapped.get(k) == "torchao" for k in _METHOD)


def unwrap(data: Any) -> Unwrapped:
    """Return the config in a document that may be wrapped.

    Raises:
        FieldError: another quantization method, a string instead of a config, or a setting of
            transformers that changes what is quantized and that a config here cannot hold.
        UnknownFieldError: a key that nobody is known to write.
    """
    if not isinstance(data, Mapping) or "_type" in data:
        return Unwrapped(data, "")
    pointer = ""
    if isinstance(data.get("quantization_config"), Mapping):
        data, pointer = data["quantization_config"], "/quantization_config"
    if "quant_type" not in data:
        return Unwrapped(data, pointer)
    raise_problems([problem.at(pointer_prefix=pointer) for problem in _problems(data)])
    return Unwrapped(data["quant_type"]["default"], f"{pointer}/quant_type/default")


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
        elif key in _EXTRAS and value:
            problems.append(
                FieldError(
                    f"a config cannot carry {key}",
                    pointer=f"/{key}",
                    found=value,
                    expected="null, false, empty or absent",
                    hint=_EXTRAS[key],
                )
            )
        elif key not in {*_METHOD, *_EXTRAS, "quant_type", "model_type"}:
            problems.append(
                UnknownFieldError(
                    "unknown field",
                    pointer=f"/{key}",
                    found=key,
                    expected="one of " + ", ".join([*_METHOD, "quant_type", *_EXTRAS]),
                )
            )
    quant_type = wrapper["quant_type"]
    if not isinstance(quant_type, Mapping) or list(quant_type) != ["default"]:
        is_name = isinstance(quant_type, str)
        problems.append(
            FieldError(
                "quant_type is the name of a function" if is_name else "quant_type is not a config",
                pointer="/quant_type",
                found=quant_type,
                expected='{"default": {"_type": …, "_version": …, "_data": {…}}}',
                hint="write the config that the function made" if is_name else None,
            )
        )
    return problems
