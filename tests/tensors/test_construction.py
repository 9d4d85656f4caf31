import pytest
import torch
from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor, TensorSpec
from qconfig.configs import PerGroup, PerRow
from qconfig.errors import (
    LayoutError,
    RegistrationError,
    UnknownNameError,
    UnsupportedOperationError,
)
from qconfig.layouts import Int8TensorLayout, QuantizeTensorToInt8Kwargs
from qconfig.migrations.int8_tensor_layout import Int8TensorLayoutV1
from qconfig.tensors import Int8Tensor, PackedTensor, tensor_class_of
from qconfig.versioning import Layout
from tests.tensors.samples import packed

CODES = torch.zeros(8, 64, dtype=torch.int8)


def test_fields_are_attributes():
    """Each field of the layout is an attribute of the tensor."""
    kwargs = QuantizeTensorToInt8Kwargs(PerRow())
    tensor = Int8Tensor(CODES, torch.ones(8, 1), [1, 64], "bfloat16", act_quant_kwargs=kwargs)
    assert tensor.qdata is CODES
    assert tensor.block_size == (1, 64)
    assert tensor.zero_point is None
    assert tensor.act_quant_kwargs == kwargs
    assert tensor.reduce_range is False


def test_outer_tensor_shows_dtype_shape_and_strides():
    """The outer tensor has the dtype attribute as type, and the codes' shape and strides."""
    tensor = Int8Tensor(CODES.t(), torch.ones(1, 8), (64, 1), torch.bfloat16)
    assert (tensor.dtype, tensor.shape, tensor.stride()) == (torch.bfloat16, (64, 8), (1, 64))
    assert not tensor.is_contiguous()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale": torch.ones(3, 5)}, "scale has a wrong shape for its blocks"),
        ({"scale": torch.ones(1, 8)}, "scale has a wrong shape for its blocks"),
        ({"scale": torch.ones(8)}, "scale has a wrong number of dimensions"),
        ({"scale": torch.ones(8, 1, dtype=torch.int8)}, "scale has a wrong dtype"),
        ({"qdata": torch.zeros(8, 64)}, "qdata has a wrong dtype"),
        ({"qdata": None}, "qdata has a wrong dtype"),
        ({"zero_point": torch.zeros(8, 2, dtype=torch.int8)}, "zero_point has a wrong shape"),
        ({"block_size": (1, 48)}, "block_size does not tile the tensor"),
        ({"block_size": (64,)}, "block_size"),
        ({"dtype": "int8"}, "dtype is not a floating-point type"),
        ({"act_pre_scale": torch.ones(63)}, "act_pre_scale has a wrong size for K"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    """Construction checks every field through the layout class (hostile items 38 and 39)."""
    right = {
        "qdata": CODES,
        "scale": torch.ones(8, 1),
        "block_size": (1, 64),
        "dtype": "float32",
    }
    with pytest.raises(ValueError, match=message):
        Int8Tensor(**(right | fields))


def test_dtype_is_required():
    """Without a dtype there is no tensor; torchao takes None."""
    with pytest.raises(TypeError, match="dtype"):
        Int8Tensor(CODES, torch.ones(8, 1), (1, 64))


def test_specifications_are_no_tensors():
    """A layout of specs, as in a plan, cannot be held."""
    layout = Int8TensorLayout(
        TensorSpec(DType.INT8, (8, 64)), TensorSpec(DType.FLOAT32, (8, 1)), (1, 64), "float32"
    )
    with pytest.raises(LayoutError, match="qdata is not a tensor"):
        Int8Tensor.from_layout(layout)


def test_inner_tensors_share_a_device():
    """Codes and scales on two devices are refused."""
    with pytest.raises(LayoutError, match="scale lies on another device") as caught:
        Int8Tensor(CODES, torch.ones(8, 1, device="meta"), (1, 64), "float32")
    assert caught.value.expected == "cpu, as qdata"


def test_layout_round_trip():
    """`to_layout` and `from_layout` are inverse and share memory."""
    tensor = packed(granularity=PerGroup(16), zero_point=True)
    again = Int8Tensor.from_layout(tensor.to_layout())
    assert torch.equal(again, tensor)
    assert again.qdata is tensor.qdata


def test_older_layouts_are_upgraded():
    """A retired version, even with tensors still in a file, becomes a tensor."""
    old = Int8TensorLayoutV1(
        LazyTensor.of(CODES + 3),
        LazyTensor.of(torch.full((8,), 2.0)),
        (1, 64),
        "bfloat16",
        zero_point=LazyTensor.of(torch.ones(8, dtype=torch.int64)),
    )
    tensor = Int8Tensor.from_layout(old)
    assert tensor.scale.shape == (8, 1)
    assert torch.equal(tensor.dequantize(), torch.full((8, 64), 4.0, dtype=torch.bfloat16))


def test_layout_keeps_torchs_own_attribute():
    """`layout` stays torch's, for torch itself reads it."""
    assert packed().layout is torch.strided


def test_class_of_a_layout():
    """The table leads from a current layout class to its tensor class."""
    assert tensor_class_of(Int8TensorLayout) is Int8Tensor


def test_class_of_a_retired_layout_is_refused():
    """A retired version has no tensor class; the error says which have."""
    with pytest.raises(
        LayoutError, match="no tensor class for layout Int8TensorLayoutV1"
    ) as caught:
        tensor_class_of(Int8TensorLayoutV1)
    assert "Int8TensorLayout" in caught.value.expected


def test_second_class_for_a_layout_is_refused():
    """A layout has one tensor class."""
    with pytest.raises(RegistrationError, match="Int8TensorLayout has a tensor class"):
        type("Other", (PackedTensor,), {"layout_class": Int8TensorLayout})


def test_foreign_layout_is_refused():
    """A layout that nobody registered is not held."""

    @frozen
    class Other(Layout):
        pass

    with pytest.raises(UnknownNameError, match="class is not registered"):
        Int8Tensor.from_layout(Other())


def test_repr_prints_no_elements():
    """`repr` names class, types, shapes and blocks, and is short."""
    assert repr(packed()) == (
        "Int8Tensor(dtype=float32, qdata=int8[32, 64], scale=float32[32, 1], "
        "block_size=(1, 64), device=cpu)"
    )


def test_packed_bytes_count_inner_tensors():
    """`packed_nbytes` counts codes and scales; torch's `nbytes` counts what is shown."""
    tensor = packed()
    assert tensor.packed_nbytes == 32 * 64 + 32 * 4
    assert tensor.nbytes == 32 * 64 * 4


def test_activation_scale_is_checked():
    """`with_activation_scale` returns a new tensor and checks the length."""
    tensor = packed()
    scaled = tensor.with_activation_scale(torch.ones(64))
    assert scaled.act_pre_scale is not None
    assert tensor.act_pre_scale is None
    with pytest.raises(LayoutError, match="wrong size for K"):
        tensor.with_activation_scale(torch.ones(32))


def test_gradients_are_refused():
    """Setting requires_grad raises; nn.Parameter, which asks by default, gives a frozen one."""
    tensor = packed()
    with pytest.raises(UnsupportedOperationError, match="a packed payload has no gradient"):
        tensor.requires_grad = True
    assert torch.nn.Parameter(tensor).requires_grad is False


def test_learned_fields_lose_their_gradient():
    """A scale that is a parameter is taken without its gradient, so that products work."""
    scale = torch.nn.Parameter(torch.ones(8, 1))
    tensor = Int8Tensor(CODES, scale, (1, 64), "float32")
    assert not tensor.scale.requires_grad
    assert tensor.scale.data_ptr() == scale.data_ptr()
    assert torch.nn.functional.linear(torch.ones(2, 64), tensor).shape == (2, 8)


def test_sparse_fields_are_refused():
    """A sparse scale is named when the tensor is made."""
    with pytest.raises(LayoutError, match="scale is not strided"):
        Int8Tensor(CODES, torch.ones(8, 1).to_sparse(), (1, 64), "float32")
