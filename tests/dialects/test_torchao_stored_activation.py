"""Activations of torchao's wrappers: functions are names, and divisors become factors."""

import attrs
import pytest
import torch

from qconfig.checkpoints.writer import Writer
from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import Role
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerRow, PerTensor
from qconfig.dialects.torchao.stored import StoredFunction
from qconfig.dialects.torchao.tensors.activation import FUNCTIONS, OTHER_FUNCTIONS
from qconfig.dialects.torchao.tensors.names import NAMES
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import ContainerError, MigrationError, UnknownNameError
from qconfig.layouts.activation import Int8Arithmetic, Int8Product
from qconfig.layouts.intx import ActivationQuantization
from qconfig.versioning import registry
from tests.dialects.stored_arrangements import ARRANGEMENTS
from tests.dialects.stored_forms import FORMS
from tests.dialects.stored_samples import (
    FP8_KWARGS,
    PER_TENSOR,
    K,
    N,
    affine,
    float8_weight,
    int8_weight,
    intx_weight,
    lazy,
    plain,
    quantized,
    scaled,
    static,
)

_ACT_QUANTIZER = "torchao.prototype.smoothquant.api._ActQuantizer"
INT8 = sorted(name for name, how in FUNCTIONS.items() if how.int8 is not None)
INTX = sorted(name for name, how in FUNCTIONS.items() if how.intx is not None)


@pytest.mark.parametrize("name", INT8)
def test_functions_of_int8_weights_become_kwargs(name):
    """Each token has its scale, and the mapping is the function's."""
    read = read_tensor(quantized(int8_weight(), name))
    kwargs = registry.convert(read.layout).act_quant_kwargs
    assert kwargs.granularity == PerRow()
    assert kwargs.mapping_type is FUNCTIONS[name].int8
    last = "v2" if "cutlass" in name else "v5"
    assert str(read.origin.steps[-1].target) == f"Int8TensorLayout {last}"


@pytest.mark.parametrize("name", INTX)
def test_functions_of_other_weights_become_a_way_to_quantize(name):
    """Weights of fewer bits say it in one word."""
    layout = registry.convert(read_tensor(quantized(intx_weight(), name)).layout)
    assert layout.activation_quantization is FUNCTIONS[name].intx


def test_the_reduced_range_of_torchao_is_carried():
    """Its codes were -127 to 127, and integer sums were rounded: the layout says so."""
    name = "_int8_symm_per_token_reduced_range_quant"
    read = read_tensor(quantized(int8_weight(), name))
    assert read.origin.changes == ()
    assert read.layout.arithmetic == Int8Arithmetic(
        Int8Product.SCALE_TYPE, least_code=-127, least_scale=1e-5
    )


def test_single_tokens_stay_as_they_are_where_they_did():
    """weight_only_decode left sequences of one token as they were, and so does the layout."""
    name = "_int8_symm_per_token_reduced_range_quant_noop_decode"
    assert read_tensor(quantized(int8_weight(), name)).layout.arithmetic.skips_single_tokens


def test_activations_of_a_block_sparse_weight_get_the_codes_of_torchao():
    """Products are of values, for its kernel rounds otherwise than that of whole weights."""
    stored = quantized(
        ARRANGEMENTS["BlockSparseAQTTensorImpl"][0], "_int8_symm_per_token_reduced_range_quant"
    )
    read = read_tensor(stored)
    assert read.layout.arithmetic == Int8Arithmetic(
        Int8Product.VALUES, least_code=-127, least_scale=1e-5
    )
    (said,) = read.origin.changes
    assert "kernel for block sparse weights" in said
    assert "at most 2**-6" in said


def of_groups(tensor):
    """Return an Int8Tensor with two scales a row."""
    fields = {**tensor.fields, "scale": lazy(N, 2), "block_size": [1, K // 2]}
    if fields.get("zero_point") is not None:
        fields["zero_point"] = lazy(N, 2, dtype=torch.int8, fill=0)
    return attrs.evolve(tensor, fields=fields)


@pytest.mark.parametrize("release", ["0.15", "0.16", "0.17"])
def test_an_arithmetic_that_no_product_of_groups_follows_is_left_out_and_said(release):
    """Torchao's product of such a weight failed, so that there is none to follow."""
    read = read_tensor(of_groups(FORMS[f"Int8Tensor {release}"][0]))
    assert read.at_least(5).layout.arithmetic is None
    assert any("no int8 activations" in text for text in read.origin.changes)


def test_static_scales_of_channels_have_no_older_arithmetic():
    """They meet each product before the sum, which no release could."""
    tensor = FORMS["Int8Tensor 0.17"][0]
    scale = lazy(1, K, dtype=torch.float32)
    read = read_tensor(attrs.evolve(tensor, fields={**tensor.fields, "act_quant_scale": scale}))
    assert read.at_least(5).layout.arithmetic is None
    assert any("static scales of channels" in text for text in read.origin.changes)


@pytest.mark.parametrize(
    ("writer", "scale_dtype", "least_scale"),
    [
        ((0, 6), None, None),
        ((0, 10), DType.FLOAT64, None),
        ((0, 11), DType.FLOAT32, None),
        ((0, 12), DType.FLOAT32, 2.0**-23),
    ],
)
@pytest.mark.parametrize("weight", [int8_weight, intx_weight])
def test_asymmetric_scales_are_those_of_the_writer(weight, writer, scale_dtype, least_scale):
    """Their type and their least value changed from release to release."""
    stored = quantized(weight(), "_int8_asymm_per_token_quant")
    read = read_tensor(stored, Writer("torchao", writer))
    expected = Int8Arithmetic(Int8Product.VALUES, least_scale=least_scale, scale_dtype=scale_dtype)
    assert read.layout.arithmetic == expected
    assert read.origin.ambiguities == ()


def test_asymmetric_scales_of_an_unnamed_writer_are_the_newest_and_said_to_be():
    """The file does not tell 0.7 from 0.17."""
    read = read_tensor(quantized(intx_weight(), "_int8_asymm_per_token_quant"))
    assert read.layout.arithmetic.least_scale == 2.0**-23
    assert any("name the writer" in text for text in read.origin.ambiguities)


@pytest.mark.parametrize(
    ("release", "least_scale"), [("0.15", None), ("0.16", 2.0**-23), ("0.17", 2.0**-23)]
)
def test_int8_tensors_say_how_their_release_computed(release, least_scale):
    """0.15 had the epsilon of the type as the least scale, 0.16 that of float32."""
    layout = registry.convert(read_tensor(FORMS[f"Int8Tensor {release}"][0]).layout)
    assert layout.arithmetic == Int8Arithmetic(Int8Product.ROUNDED_SUM, least_scale=least_scale)


def test_a_function_that_torchao_never_had_is_refused_by_name():
    """Nothing is looked up but in the table."""
    with pytest.raises(UnknownNameError, match="_system is no function") as caught:
        read_tensor(quantized(int8_weight(), "_system"))
    assert caught.value.pointer == "/input_quant_func"


def test_a_function_for_another_weight_is_refused():
    """A float8 activation does not go with an int8 weight."""
    with pytest.raises(MigrationError, match="does not go with"):
        read_tensor(quantized(int8_weight(), "_input_activation_quant_func_fp8", **FP8_KWARGS))


def test_arguments_that_a_function_has_not_are_refused():
    """What an unknown argument changed, nobody knows."""
    with pytest.raises(ContainerError, match="has no argument bits"):
        read_tensor(quantized(int8_weight(), "_int8_asymm_per_token_quant", bits=4))


def test_float8_activations_have_granularity_and_type():
    """Both are arguments, of the wrapper or bound by functools.partial."""
    later = quantized(float8_weight(), "_input_activation_quant_func_fp8", **FP8_KWARGS)
    bound = StoredFunction("_input_activation_quant_func_fp8", FP8_KWARGS)
    fields = {k: v for k, v in later.fields.items() if k != "quant_kwargs"}
    earlier = attrs.evolve(later, fields={**fields, "input_quant_func": bound})
    found = [read_tensor(tensor).layout.act_quant_kwargs for tensor in (later, earlier)]
    assert found[0] == found[1]
    assert (found[0].granularity, found[0].float8_dtype) == (PerRow(), DType.FLOAT8_E4M3FN)


def test_float8_activations_without_granularity_are_refused():
    """Both arguments are needed."""
    with pytest.raises(ContainerError, match="for activations has no activation_g") as caught:
        read_tensor(quantized(float8_weight(), "_input_activation_quant_func_fp8"))
    assert caught.value.expected == "activation_granularity and activation_dtype"


@pytest.mark.parametrize("name", ["_identity", "_to_bfloat16"])
def test_functions_that_quantize_nothing_leave_the_weight_as_it_is(name):
    """Autoquant wrapped weights that needed no quantized activation."""
    weight = int8_weight()
    assert read_tensor(quantized(weight, name)).layout == read_tensor(weight).layout


def test_mx_activations_of_0_12_are_kwargs():
    """MX weights of 0.12 were wrapped; the activation has the weight's blocks."""
    weight = FORMS["MXTensor 0.10"][0]
    layout = read_tensor(quantized(weight, "_input_activation_quant_func_mxfp")).layout
    assert layout.act_quant_kwargs.block_size == 32


def test_every_function_that_a_pickle_may_name_is_decided():
    """Static ones belong to another wrapper; all others are in a table."""
    names = {path for path, role in NAMES.items() if role is Role.FUNCTION}
    methods = {path for path in names if "_ActQuantizer" in path}
    short = {path.split(".")[-1] for path in names - methods}
    assert methods == {f"{_ACT_QUANTIZER}.{how}_quantize" for how in ("dynamic", "static")}
    assert {*short, "_ActQuantizer.dynamic_quantize"} == {*FUNCTIONS, *OTHER_FUNCTIONS}


@pytest.mark.parametrize(
    "weight",
    [
        int8_weight(),
        intx_weight(),
        float8_weight(),
        FORMS["Int4Tensor 0.13"][0],
        ARRANGEMENTS["UintxAQTTensorImpl"][0],
        ARRANGEMENTS["Int4CPUAQTTensorImpl"][0],
        ARRANGEMENTS["Int4XPUAQTTensorImpl"][0],
        ARRANGEMENTS["TensorCoreTiledAQTTensorImpl"][0],
    ],
    ids=lambda tensor: tensor.name,
)
def test_a_divisor_becomes_its_reciprocal(weight):
    """The wrapper divided, act_pre_scale multiplies; bfloat16 becomes float32."""
    divisor = torch.linspace(0.5, 3, K).to(torch.bfloat16)
    read = read_tensor(scaled(weight, LazyTensor.of(divisor)))
    factor = registry.convert(read.layout).act_pre_scale
    assert factor.dtype is DType.FLOAT32
    assert torch.equal(factor.load(), 1 / divisor.float())


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.bfloat16, DType.FLOAT32),
        (torch.float16, DType.FLOAT64),
        (torch.float32, DType.FLOAT64),
    ],
)
def test_the_product_rounds_as_the_quotient_did(dtype, wide):
    """In the next wider type, product and quotient round to the same number."""
    generator = torch.Generator().manual_seed(0)
    divisor = (torch.rand(K, generator=generator) + 0.01).to(dtype)
    x = torch.randn(4096, K, generator=generator).to(dtype)
    read = read_tensor(scaled(int8_weight(), LazyTensor.of(divisor)))
    factor = read.layout.act_pre_scale
    assert factor.dtype is wide
    assert torch.equal((x * factor.load()).to(dtype), x / divisor)
    assert not read.origin.changes


def test_one_divisor_for_all_channels_is_repeated():
    """A factor of ours has an entry for each channel."""
    factor = read_tensor(scaled(int8_weight(), lazy())).layout.act_pre_scale
    assert factor.shape == (K,)
    assert torch.equal(factor.load(), torch.ones(K))


def test_a_weight_without_a_factor_is_refused():
    """MX weights have no factor for activations."""
    with pytest.raises(MigrationError, match="no factor for activations"):
        read_tensor(scaled(FORMS["MXTensor 0.13"][0], lazy(K)))


def test_two_divisors_are_refused():
    """Activations that are scaled twice have no one factor."""
    with pytest.raises(MigrationError, match="scaled twice") as caught:
        read_tensor(scaled(scaled(int8_weight(), lazy(K)), lazy(K)))
    assert caught.value.expected == "a weight without one"


def test_static_float8_scales_are_carried():
    """The wrapper's scale is that of the activation."""
    kwargs = {**FP8_KWARGS, "activation_granularity": PER_TENSOR}
    tensor = static(float8_weight(), "_input_activation_quant_func_fp8", quant_kwargs=kwargs)
    layout = read_tensor(tensor).layout
    assert layout.act_quant_kwargs.granularity == PerTensor()
    assert layout.act_quant_scale is tensor.fields["scale"]


def test_static_int8_scales_are_carried():
    """SmoothQuant up to 0.13: a scale and a zero point for all activations."""
    tensor = static(
        int8_weight(), "_ActQuantizer.static_quantize", zero_point=lazy(dtype=torch.int64, fill=3)
    )
    read = read_tensor(tensor)
    assert read.layout.act_quant_kwargs.granularity == PerTensor()
    assert read.layout.act_quant_kwargs.mapping_type is MappingType.SYMMETRIC
    assert read.layout.act_quant_zero_point.load().tolist() == [[3]]
    assert read.layout.arithmetic.least_code == -127


def test_a_zero_point_beyond_int8_is_refused():
    """A code that int8 does not have is no zero point."""
    zero = lazy(dtype=torch.int64, fill=300)
    tensor = static(int8_weight(), "_ActQuantizer.static_quantize", zero_point=zero)
    with pytest.raises(MigrationError, match="does not fit int8"):
        read_tensor(tensor).layout.act_quant_zero_point.load()


def test_a_wrapper_without_a_weight_is_refused():
    """What is wrapped must be a tensor of torchao's."""
    with pytest.raises(ContainerError, match="original_weight_tensor"):
        read_tensor(quantized(lazy(2, 2), "_int8_asymm_per_token_quant"))


def test_errors_point_into_the_wrapped_tensor():
    """The place of a problem leads through the wrappers."""
    broken = affine(plain(scale=None))
    with pytest.raises(ContainerError) as caught:
        read_tensor(scaled(quantized(broken, "_int8_asymm_per_token_quant"), lazy(K)))
    assert caught.value.pointer == (
        "/original_weight_tensor/original_weight_tensor/tensor_impl/scale"
    )


def test_int4_activations_go_with_packed_weights():
    """CUTLASS's weights multiply with int4 activations."""
    weight = ARRANGEMENTS["Int4PackedTensorImpl"][0]
    layout = read_tensor(quantized(weight, "_int4_symm_cutlass_quant")).layout
    assert layout.activation_quantization is ActivationQuantization.INT4_SYM_PER_TOKEN
