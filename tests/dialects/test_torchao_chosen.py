"""Weights of autoquant and parq, and scales that one release wrote otherwise than the next."""

import attrs
import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import PickledSubclass
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored, StoredObject, stored_from_pickle
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import ContainerError, MigrationError
from tests.dialects.stored_forms import FORMS
from tests.dialects.stored_samples import (
    FP8_KWARGS,
    K,
    N,
    affine,
    float8_weight,
    int8_weight,
    lazy,
    quantized,
    stored,
    stretched,
)
from tests.torchao_pickles import packed

_AUTOQUANT = "torchao.quantization.autoquant"


def _named(weight: Stored, name: str) -> Stored:
    return attrs.evolve(weight, name=name, path=f"{_AUTOQUANT}.{name}")


def test_a_weight_only_choice_has_the_values_of_its_class():
    """AQInt8WeightOnlyQuantizedLinearWeight is an AffineQuantizedTensor."""
    weight = int8_weight()
    read = read_tensor(_named(weight, "AQInt8WeightOnlyQuantizedLinearWeight"))
    assert read.layout == read_tensor(weight).layout
    assert read.origin.type == "AQInt8WeightOnlyQuantizedLinearWeight(PlainAQTTensorImpl)"
    assert not read.origin.changes


@pytest.mark.parametrize("number", [2, 3])
def test_a_choice_with_another_kernel_says_so(number):
    """Its products round elsewhere."""
    name = f"AQInt8WeightOnlyQuantizedLinearWeight{number}"
    (change,) = read_tensor(_named(int8_weight(), name)).origin.changes
    assert change.startswith("products: torchao multiplied with another kernel")


def test_a_float_wrapper_around_a_quantized_weight_is_read_through():
    """0.8 to 0.11 put the per row float8 weight into a BFloat16Tensor that casts activations."""
    weight = quantized(float8_weight(), "_input_activation_quant_func_fp8", **FP8_KWARGS)
    name = "AQFloat8PerRowScalingDynamicallyQuantizedLinearWeight"
    read = read_tensor(stored(name, _AUTOQUANT, weight=weight))
    assert read.layout == read_tensor(weight).layout
    assert any("bfloat16 or float16 first" in change for change in read.origin.changes)


def test_a_choice_of_the_oldest_release_is_refused():
    """0.4 stored codes and scales in a class of its own."""
    old = stored("AQInt8DynamicallyQuantizedLinearWeight", _AUTOQUANT, int_data=lazy(N, K))
    with pytest.raises(MigrationError, match="older than AffineQuantizedTensor"):
        read_tensor(old)


def test_stretched_zero_points_are_subtracted_from_codes():
    """They are -1/2 and the tensor says FLOAT, where others would be added to values."""
    weight = stretched()
    codes = weight.fields["tensor_impl"].fields["int_data"].load()
    values = packed(read_tensor(weight).layout).dequantize()
    assert torch.equal(values, (codes + 0.5).bfloat16())


def test_the_first_name_of_the_float8_function_means_the_same():
    """0.5 spelled it otherwise, under functools.partial."""
    weight = float8_weight()
    new = quantized(weight, "_input_activation_quant_func_fp8", **FP8_KWARGS)
    old = quantized(weight, "_input_quant_func_dyanmic_fp8", **FP8_KWARGS)
    assert read_tensor(old).layout == read_tensor(new).layout


def test_floatx_codes_are_read_by_their_first_name():
    """0.5 called them packed_fpx_data."""
    codes = (torch.arange(N * K * 6 // 8) % 256).to(torch.uint8).view(N, -1)
    kinds = {
        name: affine(_floatx(cls, {name: LazyTensor.of(codes)}))
        for cls, name in (
            ("FpxTensorCoreAQTLayout", "packed_fpx_data"),
            ("FloatxTensorCoreAQTLayout", "packed_floatx_data"),
        )
    }
    old, new = (packed(read_tensor(t).layout).dequantize() for t in kinds.values())
    assert torch.equal(old, new)


def _floatx(cls: str, codes: dict[str, LazyTensor]) -> Stored:
    named = {"layout_type": StoredObject("Layout", {"ebits": 3, "mbits": 2})}
    scale = {"scale": lazy(N, dtype=torch.float16)}
    return Stored(cls, f"torchao.{cls}", DType.UINT8, (N, K), codes | scale | named)


def test_a_static_scale_of_mx_activations_is_refused():
    """0.12 has the argument and passes None."""
    weight = FORMS["MXTensor 0.12"][0]
    kwargs = {"activation_dtype": DType.FLOAT8_E4M3FN, "block_size": 32}
    name = "_input_activation_quant_func_mxfp"
    assert read_tensor(quantized(weight, name, **kwargs, scale=None)).layout
    with pytest.raises(ContainerError, match="scale is not what"):
        read_tensor(quantized(weight, name, **kwargs, scale=lazy(1)))


def test_nvfp4_scales_of_several_matrices_may_lie_in_a_row_each():
    """0.13 stacked them so; the order is that of blocks."""
    tensor = FORMS["NVFP4Tensor 0.13"][0]
    codes, scale = (tensor.fields[n] for n in ("qdata", "_scale_e4m3"))
    parts = {
        "qdata": codes.reshape(4, N // 4, K // 2),
        "_per_tensor_scale": None,
    }
    flat = parts | {"_scale_e4m3": scale.reshape(4, N // 4 * K // 16)}
    rows = parts | {"_scale_e4m3": scale.reshape(4, N // 4, K // 16)}
    shape = (4, N // 4, K)
    found = [
        packed(read_tensor(attrs.evolve(tensor, shape=shape, fields=tensor.fields | f)).layout)
        for f in (flat, rows)
    ]
    assert torch.equal(found[0].dequantize(), found[1].dequantize())


def test_float8_of_training_is_not_taken_for_a_weight():
    """Its class had the name that a weight's has since 0.13; nothing of its fields is looked at."""
    path = "torchao.float8.float8_tensor.Float8Tensor"
    tensor = stored_from_pickle(PickledSubclass(path, DType.BFLOAT16, (N, K), (K, 1), {"_data": 1}))
    with pytest.raises(MigrationError, match=r"Float8TrainingTensor .* state of training"):
        read_tensor(tensor)


def test_static_float8_scales_of_rows_are_refused():
    """They are for one batch size."""
    tensor = FORMS["PrototypeFloat8Tensor"][0]
    fields = tensor.fields | {"act_quant_scale": lazy(4, 1, dtype=torch.float32)}
    with pytest.raises(MigrationError, match="each row of a batch"):
        read_tensor(attrs.evolve(tensor, fields=fields))


@pytest.mark.parametrize(("fill", "noted"), [(0, False), (3, True)])
def test_int8_zero_points_that_torchao_leaves_out_are_reported(fill, noted):
    """Its products are those of the codes, its dequantize subtracts zero points."""
    tensor = FORMS["Int8Tensor 0.18"][0]
    fields = tensor.fields | {"zero_point": lazy(N, 1, dtype=torch.int8, fill=fill)}
    changes = read_tensor(attrs.evolve(tensor, fields=fields)).origin.changes
    assert any("leave out the zero points of weights" in change for change in changes) is noted


def test_int8_zero_points_of_groups_are_not_left_out_by_a_weight_only_product():
    """Torchao dequantizes such a weight."""
    tensor = FORMS["Int8Tensor 0.18"][0]
    groups = {
        "scale": lazy(N, K // 32, dtype=torch.float32),
        "zero_point": lazy(N, K // 32, dtype=torch.int8, fill=3),
        "block_size": [1, 32],
        "act_quant_kwargs": None,
    }
    assert not read_tensor(attrs.evolve(tensor, fields=tensor.fields | groups)).origin.changes


@pytest.mark.parametrize("name", ["Int4PlainInt32Tensor", "Int4OpaqueTensor 0.17"])
def test_int4_of_safetensors_shows_the_type_of_its_scales(name):
    """Such files do not say what the tensor shows."""
    tensor = FORMS[name][0]
    halves = {
        key: value.map(lambda t: t.half(), dtype=DType.FLOAT16)
        for key, value in tensor.fields.items()
        if key in ("scale", "scale_and_zero")
    }
    file = attrs.evolve(tensor, path=None, dtype=None, fields=tensor.fields | halves)
    assert read_tensor(file).layout.dtype is DType.FLOAT16
