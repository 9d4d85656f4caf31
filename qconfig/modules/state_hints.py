"""What to do where a model is not quantized, frozen or packed as the state_dict is."""

from collections.abc import Mapping
from typing import Any

from qconfig.tensors import PackedTensor
from qconfig.tensors.quant_tensor.base import QuantTensor

_ROLES = ("weight_quant", "bias_quant", "input_quant", "output_quant", "act_quant")


def hint_of_extra(name: str, model: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Return what to do about a tensor that the model has no place for, or None.

    Args:
        name: its name.
        model: the state_dict of the model, parameters and not their data.
        found: the state_dict that it is of.
    """
    layer = _layer_of(name)
    if layer is None:
        return None
    stage = model.get(_joined(layer, "weight"))
    owner, _, _ = name.rpartition(".")
    if owner == _joined(layer, "weight_quant") and isinstance(stage, QuantTensor | PackedTensor):
        return "the model is frozen, and the file is not: load it before qconfig.freeze"
    if any(own.startswith(f"{owner}.") for own in model):
        return None
    freeze = (
        ", and freeze it" if isinstance(found.get(_joined(layer, "weight")), QuantTensor) else ""
    )
    return f"quantize the model with the config of the file first (qconfig.quantize_){freeze}"


def hint_of_lacking(name: str, found: Mapping[str, Any]) -> str | None:
    """Return what to do about a tensor of the model that a state_dict lacks, or None.

    Args:
        name: its name in the model.
        found: the state_dict.
    """
    layer = _layer_of(name)
    if layer is None:
        return None
    weight = found.get(_joined(layer, "weight"))
    if isinstance(weight, PackedTensor):
        return "freeze and pack the model first: qconfig.pack(qconfig.freeze(model))"
    if isinstance(weight, QuantTensor):
        return "freeze the model first: qconfig.freeze(model)"
    quantizers = any(_layer_of(other) is not None for other in found)
    return None if quantizers else "the file is of floats: load it before qconfig.quantize_"


def hint_of_difference(expected: Any, found: Any) -> str | None:
    """Return what to do about a weight at another stage than the model's, or None."""
    if isinstance(expected, QuantTensor) and isinstance(found, PackedTensor):
        return "pack the model first: qconfig.pack(model)"
    return None


def _layer_of(name: str) -> str | None:
    """Return the layer whose quantizer a tensor belongs to, or None."""
    owner, _, _ = name.rpartition(".")
    layer, _, role = owner.rpartition(".")
    return layer if role in _ROLES else None


def _joined(layer: str, name: str) -> str:
    return f"{layer}.{name}" if layer else name
