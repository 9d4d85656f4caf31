"""Repairs of drawn values that say how products of quantized activations are computed."""

from math import prod
from typing import Any

import attrs
from hypothesis import strategies as st

from qconfig.layouts.activation import Int8Product
from qconfig.layouts.intx import ActivationQuantization
from qconfig.versioning import Entry

Draw = Any
_INT8 = (ActivationQuantization.INT8_ASYM_PER_TOKEN, ActivationQuantization.INT8_SYM_PER_TOKEN)


def fit_arithmetic(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give scales of activations a type that they take."""
    values["scale_dtype"] = draw(st.sampled_from([None, "float32", "float64"]))


def fit_int8(values: dict[str, Any]) -> None:
    """Leave out an arithmetic where nothing is quantized, or one product has its own scale."""
    arithmetic, static = values.get("arithmetic"), values.get("act_quant_scale")
    shape: tuple[int, ...] = () if static is None else static.shape
    of_channels = prod(shape) != 1 and not (len(shape) > 1 and shape[-1] == 1)
    if values.get("act_quant_kwargs") is None or of_channels:
        values.pop("arithmetic", None)
    elif arithmetic is not None and values["scale"].shape[-1] != 1:
        values["arithmetic"] = attrs.evolve(arithmetic, product=Int8Product.VALUES)


def fit_intx(values: dict[str, Any]) -> None:
    """Leave out an arithmetic where no int8 activation is made; make it one of values."""
    arithmetic = values.pop("arithmetic", None)
    if arithmetic is not None and values.get("activation_quantization") in _INT8:
        values["arithmetic"] = attrs.evolve(arithmetic, product=Int8Product.VALUES)
