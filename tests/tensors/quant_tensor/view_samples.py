"""Quant tensors of many shapes, and metadata of many shapes on them."""

from math import prod

import torch
from hypothesis import strategies as st

from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4) | st.lists(
    st.integers(0, 4), min_size=1, max_size=4
)


@st.composite
def metadata_shapes(draw, shape):
    """Return a shape that broadcasts to `shape` and to no more."""
    kind = draw(st.sampled_from(["number", "ones", "dimensions"]))
    if kind == "number":
        return ()
    if kind == "ones":
        return (1,) * draw(st.integers(1, len(shape)))
    kept = [n if draw(st.booleans()) else 1 for n in shape]
    return tuple(kept[draw(st.integers(0, len(shape) - 1)) :])


@st.composite
def int_tensors(draw, of_shape=shapes):
    """Return a valid IntQuantTensor whose elements, scales and zero points differ."""
    shape = tuple(draw(of_shape))
    seed = torch.Generator().manual_seed(draw(st.integers(0, 9)))
    scale_shape, zero_shape = draw(metadata_shapes(shape)), draw(metadata_shapes(shape))
    scale = 2.0 ** torch.randint(-3, 3, scale_shape, generator=seed)
    zero_point = torch.randint(-4, 4, zero_shape, generator=seed).float()
    integers = torch.randint(-128, 128, shape, generator=seed).float()
    return IntQuantTensor((integers - zero_point) * scale, scale, zero_point, 8, True)


@st.composite
def float_tensors(draw, of_shape=shapes):
    """Return a valid FloatQuantTensor of e4m3."""
    shape = tuple(draw(of_shape))
    seed = torch.Generator().manual_seed(draw(st.integers(0, 9)))
    scale = 2.0 ** torch.randint(-3, 3, draw(metadata_shapes(shape)), generator=seed)
    codes = torch.randint(0, 127, shape, generator=seed).to(torch.uint8)
    small = codes.view(torch.float8_e4m3fn).float() if prod(shape) else codes.float()
    return FloatQuantTensor(small * scale, scale, 0, 4, 3, 7, True, None, ("111",), True)


def pieces_of(result):
    """Return the tensors of a result, which is one or several."""
    return list(result) if isinstance(result, tuple | list) else [result]


def metadata_fits(tensor):
    """Return whether scale and zero point broadcast to the values, and to no more."""
    shape = tensor.value.shape
    return all(
        torch.broadcast_shapes(part.shape, shape) == shape
        for part in (tensor.scale, tensor.zero_point)
    )
