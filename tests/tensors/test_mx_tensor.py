"""`MXTensor` and `NVFP4Tensor`: products, views, tiles of scales, refusals."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import linear
from torch.profiler import ProfilerActivity

from qconfig.configs.choices import ScaleCalculationMode
from qconfig.errors import LayoutError, UnsupportedOperationError, UsageError
from qconfig.layouts.mx import MXElementType, QuantizeTensorToMXKwargs
from qconfig.layouts.nvfp4 import QuantizeTensorToNVFP4Kwargs
from qconfig.tensors.block_scaled_device import has_block_scaled_product
from qconfig.tensors.matrix_sharding import joined_parts, row_parts
from qconfig.tensors.mx import MXTensor
from qconfig.tensors.mx_quantize import quantize_mx
from qconfig.tensors.nvfp4 import NVFP4Tensor
from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4
from qconfig.tensors.small_floats import decoded_pairs
from qconfig.tensors.swizzle import swizzled, unswizzled
from tests.tensors.torchao_mx import same_bytes, torchao_mx

RCEIL = ScaleCalculationMode.RCEIL
FP4 = MXElementType.FLOAT4_E2M1FN_X2


def _weight(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _mx(weight: torch.Tensor, element: MXElementType, **options: Any) -> MXTensor:
    codes, scale = quantize_mx(weight, element, 32, RCEIL)
    if options.get("is_swizzled_scales"):
        scale = swizzled(scale)
    return MXTensor(codes, scale, element, 32, weight.dtype, **options)


def _nvfp4(weight: torch.Tensor, **options: Any) -> NVFP4Tensor:
    second = per_tensor_scale_of(weight)
    codes, scale = quantize_nvfp4(weight, second)
    if options.get("is_swizzled_scales"):
        scale = swizzled(scale)
    return NVFP4Tensor(codes, scale, 16, weight.dtype, per_tensor_scale=second, **options)


MAKERS: dict[str, Callable[..., Any]] = {
    "nvfp4": _nvfp4,
    **{
        element.value: lambda w, element=element, **options: _mx(w, element, **options)
        for element in MXElementType
    },
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def make(request: pytest.FixtureRequest) -> Any:
    """Give each way to make a tensor from a float weight."""
    return request.param


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_linear_multiplies_the_dequantized_weight(make: Any, dtype: torch.dtype) -> None:
    """Without quantized activations, in each type, linear is that of the dequantized weight."""
    weight, x = make(_weight(24, 96)), _weight(5, 96).to(dtype)
    expected = x.double() @ weight.dequantize(torch.float64).t()
    error = (linear(x, weight).double() - expected).abs().max() / expected.abs().max()
    # The product of both scales of NVFP4 is a float32 number.
    assert error <= 4 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def test_rows_beyond_one_slab_are_right(make: Any) -> None:
    """A weight larger than the buffer gives what its parts give."""
    weight, x = make(_weight(2048, 1024)), _weight(3, 1024)
    whole = linear(x, weight)
    assert torch.allclose(whole, x @ weight.dequantize().t(), rtol=1e-4, atol=1e-3)
    assert torch.equal(weight.dequantize()[1500], weight[1500:1501].dequantize()[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradient_takes_a_few_rows_at_a_time(
    make: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient is that of the values, and they are never there as a whole."""
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 1 << 16)
    weight, gradient = make(_weight(512, 256)), _weight(5, 512).to(dtype)
    x = torch.zeros(5, 256, dtype=dtype, requires_grad=True)
    result = linear(x, weight)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        result.backward(gradient)
    live = peak = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    assert peak < weight.numel() * dtype.itemsize
    expected = gradient.double() @ weight.dequantize(torch.float64)
    error = (x.grad.double() - expected).abs().max() / expected.abs().max()
    assert error <= 4 * torch.finfo(dtype).eps


def test_swizzled_scales_give_the_same_values(make: Any) -> None:
    """Scales in tiles dequantize and multiply as those row by row, and the gradient too."""
    weight, x = _weight(40, 96), _weight(3, 96)
    plain, tiled = make(weight), make(weight, is_swizzled_scales=True)
    assert torch.equal(tiled.dequantize(), plain.dequantize())
    assert torch.equal(linear(x, tiled), linear(x, plain))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    linear(a, tiled).sum().backward()
    linear(b, plain).sum().backward()
    assert torch.equal(a.grad, b.grad)


def test_swizzled_scales_have_no_views(make: Any) -> None:
    """Rows of tiles are no rows of the weight: views are refused, with the reason."""
    tiled = make(_weight(40, 96), is_swizzled_scales=True)
    for view in (tiled.t, lambda: tiled[:8], lambda: torch.cat([tiled, tiled])):
        with pytest.raises(UnsupportedOperationError, match="its scales lie in tiles"):
            view()


def test_tiles_hold_each_scale_where_the_documentation_says() -> None:
    """cuBLAS: row r, block k of a tile of 128 x 4 lies at 16 * (r % 32) + 4 * (r // 32) + k."""
    scale = torch.arange(512).remainder(251).to(torch.uint8).view(128, 4)
    tiles = swizzled(scale).flatten()
    for row in (0, 1, 31, 32, 77, 127):
        for block in range(4):
            assert tiles[16 * (row % 32) + 4 * (row // 32) + block] == scale[row, block]


@pytest.mark.parametrize("shape", [(1, 1), (130, 5), (3, 128, 7)])
def test_tiles_come_back(shape: tuple[int, ...]) -> None:
    """Scales of any size go into tiles, padded with zeros, and come back."""
    scale = _weight(*shape).abs().to(torch.float8_e4m3fn)
    assert same_bytes(unswizzled(swizzled(scale), shape), scale)


def test_transposed_weights_dequantize_transposed(make: Any) -> None:
    """Two elements of a byte lie along the rows then, and the shape says so."""
    weight = make(_weight(24, 96))
    turned = weight.t()
    assert turned.shape == (96, 24)
    assert turned.to_layout().shape == (96, 24)
    assert torch.equal(turned.dequantize(), weight.dequantize().t())
    x = _weight(3, 24)
    assert torch.allclose(linear(x, turned), x @ weight.dequantize(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 0), (0, 64), (0, 0), (2, 3, 0), (0, 3, 64)])
def test_empty_weights_transpose(make: Any, shape: tuple[int, ...]) -> None:
    """Without rows, columns or experts the shape is turned all the same, and back."""
    tensor = make(torch.zeros(shape)) if len(shape) < 3 else _mx(torch.zeros(shape), FP4)
    turned = tensor.transpose(-1, -2)
    assert turned.dequantize().shape == turned.shape == (*shape[:-2], shape[-1], shape[-2])
    assert turned.to_layout().shape == turned.shape
    assert turned.transpose(-1, -2).dequantize().shape == shape


def test_fp4_blocks_of_one_byte_are_refused() -> None:
    """Codes and scales would have equal shapes, and nothing would tell a transposed weight."""
    codes = torch.zeros(4, 8, dtype=torch.uint8)
    scale = torch.zeros(4, 8).to(torch.float8_e8m0fnu)
    with pytest.raises(LayoutError, match="blocks of fp4 are single bytes") as caught:
        MXTensor(codes, scale, FP4, 2, torch.float32)
    assert caught.value.pointer == "/block_size"


def test_cuts_fall_between_blocks(make: Any) -> None:
    """Columns are cut on whole blocks and rows anywhere; what splits a block is refused."""
    weight = make(_weight(24, 96))
    assert torch.equal(weight[:, 32:].dequantize(), weight.dequantize()[:, 32:])
    assert torch.equal(weight[5:7].dequantize(), weight.dequantize()[5:7])
    with pytest.raises(LayoutError, match="would split"):
        weight[:, :24]


@pytest.mark.parametrize("shape", [(24, 32), (24, 16)])
def test_the_only_block_of_a_row_is_not_cut(shape: tuple[int, int]) -> None:
    """A row of one block stays whole: the format knows no shorter one."""
    weight = (
        _nvfp4(_weight(24, 16))
        if shape[1] == 16
        else _mx(_weight(*shape), MXElementType.FLOAT8_E4M3FN)
    )
    with pytest.raises(LayoutError, match="would split"):
        weight[:, :8]


def test_experts_take_their_second_scale_along() -> None:
    """Selecting, slicing and multiplying experts uses the scale of each."""
    weight = _weight(3, 8, 32) * torch.tensor([1.0, 100.0, 0.01]).view(3, 1, 1)
    packed = _nvfp4(weight)
    assert packed.per_tensor_scale.shape == (3, 1, 1)
    assert torch.equal(packed[1].dequantize(), packed.dequantize()[1])
    assert torch.equal(packed[1:].dequantize(), packed.dequantize()[1:])
    x = _weight(3, 4, 32)
    expected = torch.bmm(x, packed.dequantize().transpose(1, 2))
    assert torch.allclose(torch.bmm(x, packed.transpose(1, 2)), expected, rtol=1e-4, atol=1e-3)
    with pytest.raises(LayoutError, match="per_tensor_scale has a wrong shape"):
        torch.cat([packed, packed], dim=1)


def test_single_experts_bring_their_second_scale_along() -> None:
    """Experts cut one by one, as FSDP does with one a process, come together with their scales."""
    experts = _nvfp4(_weight(3, 8, 32) * torch.tensor([1.0, 20.0, 300.0]).view(3, 1, 1))
    pieces = experts.split(1)
    parts = [row_parts(piece) for piece in pieces]
    gathered = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    for whole in (joined_parts(pieces[0], gathered), torch.cat(pieces)):
        assert torch.equal(whole.dequantize(), experts.dequantize())


def test_joined_weights_share_one_second_scale() -> None:
    """Weights with different second scales do not join in silence."""
    first, second = _nvfp4(_weight(4, 32)), _nvfp4(3 * _weight(4, 32))
    with pytest.raises(LayoutError, match="differ in per_tensor_scale"):
        torch.cat([first, second])
    joined = torch.cat([first, first])
    assert torch.equal(joined.dequantize()[4:], first.dequantize())


@pytest.mark.parametrize("element", MXElementType)
def test_quantized_activations_are_torchaos(element: MXElementType) -> None:
    """The activation that linear multiplies with is what torchao makes of it."""
    kwargs = QuantizeTensorToMXKwargs(element, 32, RCEIL)
    weight = _mx(_weight(8, 64), element, act_quant_kwargs=kwargs)
    x = _weight(3, 5, 64)
    theirs = torchao_mx(x.flatten(0, 1), element, 32, RCEIL).dequantize(torch.float32)
    seen = weight.activation_seen(x)
    assert torch.equal(seen, theirs.view(3, 5, 64))
    expected = seen.double() @ weight.dequantize().double().t()
    assert torch.allclose(linear(x, weight).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_nvfp4_activations_follow_their_second_scale(dynamic: bool) -> None:
    """A dynamic second scale follows the call, a static one is the weight's."""
    kwargs = QuantizeTensorToNVFP4Kwargs(use_dynamic_per_tensor_scale=dynamic)
    static = torch.tensor(0.01)
    weight = _nvfp4(_weight(8, 64), act_quant_kwargs=kwargs, act_per_tensor_scale=static)
    x = _weight(5, 64)
    second = per_tensor_scale_of(x) if dynamic else static
    codes, scale = quantize_nvfp4(x, second)
    expected = NVFP4Tensor(codes, scale, 16, x.dtype, per_tensor_scale=second).dequantize()
    assert torch.equal(weight.activation_seen(x), expected)
    product = expected.double() @ weight.dequantize().double().t()
    assert torch.allclose(linear(x, weight).double(), product, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(24, 96), (2, 24, 96)])
def test_rounded_scales_are_those_of_narrow_arithmetic(shape: tuple[int, ...]) -> None:
    """With rounds_scales the second scale, then both, are bfloat16 before they meet a code."""
    weight = _nvfp4(_weight(*shape).bfloat16(), rounds_scales=True)
    second = weight.per_tensor_scale.bfloat16()
    both = (second * weight.scale.bfloat16()).float()
    codes = decoded_pairs(weight.qdata, torch.float32).view(*both.shape, 16)
    expected = (codes * both.unsqueeze(-1)).view(shape).bfloat16()
    assert torch.equal(weight.dequantize(), expected)
    plain = _nvfp4(_weight(*shape).bfloat16()).dequantize()
    assert not torch.equal(plain, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("transposed", [False, True])
def test_rounded_scales_are_multiplied(dtype: torch.dtype, transposed: bool) -> None:
    """Products and gradients are those of the values with rounded scales, whatever the operand."""
    packed = _nvfp4(_weight(32, 96).bfloat16(), rounds_scales=True)
    weight = packed.t() if transposed else packed
    x = _weight(5, weight.shape[1]).to(dtype).requires_grad_()
    values = packed.dequantize(torch.float32).double()
    values = values.t() if transposed else values
    found = linear(x, weight)
    expected = x.double() @ values.t()
    eps = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    assert (found.double() - expected).abs().max() <= 4 * eps * expected.abs().max()
    gradient = _weight(*found.shape).to(dtype)
    found.backward(gradient)
    expected = gradient.double() @ values
    assert (x.grad.double() - expected).abs().max() <= 4 * eps * expected.abs().max()


def test_rounded_scales_with_quantized_activations_round_the_product_of_second_scales() -> None:
    """The sum of codes and block scales is not touched; what it is multiplied with is bfloat16."""
    kwargs = QuantizeTensorToNVFP4Kwargs(use_dynamic_per_tensor_scale=True)
    made = _weight(32, 96).bfloat16()
    weight = _nvfp4(made, act_quant_kwargs=kwargs, rounds_scales=True)
    x = _weight(5, 96).bfloat16()
    second = per_tensor_scale_of(x)
    codes, scale = quantize_nvfp4(x, second)
    seen = NVFP4Tensor(codes, scale, 16, x.dtype).dequantize(torch.float64)
    bare = NVFP4Tensor(weight.qdata, weight.scale, 16, x.dtype).dequantize(torch.float64)
    factor = (second * weight.per_tensor_scale).bfloat16()
    expected = (seen @ bare.t()).bfloat16() * factor
    assert torch.equal(linear(x, weight), expected)


@pytest.mark.parametrize("rows", [1, 24])
def test_a_transposed_weight_may_have_no_whole_blocks(rows: int) -> None:
    """`x @ weight` would quantize x in blocks along the rows, which need not be whole."""
    weight = _weight(rows, 64)
    mx = _mx(weight, FP4, act_quant_kwargs=QuantizeTensorToMXKwargs(FP4))
    nvfp4 = _nvfp4(weight, act_quant_kwargs=QuantizeTensorToNVFP4Kwargs())
    for tensor, block in ((mx, 32), (nvfp4, 16)):
        with pytest.raises(UsageError, match="have no whole blocks") as caught:
            torch.ones(2, rows) @ tensor
        assert caught.value.expected == f"a multiple of {block}"


def test_activations_that_are_not_finite_give_nan() -> None:
    """NaN in an activation reaches the result of its row, and no other row."""
    for kwargs, make in (
        (QuantizeTensorToMXKwargs(MXElementType.FP6_E2M3), MAKERS["fp6_e2m3"]),
        (QuantizeTensorToNVFP4Kwargs(), MAKERS["nvfp4"]),
    ):
        weight, x = make(_weight(8, 64), act_quant_kwargs=kwargs), _weight(2, 64)
        x[0, 3] = torch.nan
        found = linear(x, weight)
        assert found[0].isnan().all()
        assert found[1].isfinite().all()


def test_fp6_codes_keep_to_six_bits() -> None:
    """Checked on loading: a byte above 63 is no code."""
    weight = _mx(_weight(2, 32), MXElementType.FP6_E3M2)
    layout = weight.to_layout()
    layout.qdata[1, 4] = 64
    with pytest.raises(LayoutError, match=r"qdata is out of range.*\[1, 4\]"):
        MXTensor.from_layout(layout, check=True)


@pytest.mark.skipif(
    not (torch.cuda.is_available() and has_block_scaled_product(torch.device("cuda"))),
    reason="needs a CUDA device of capability 10.0, which multiplies block-scaled codes",
)
@pytest.mark.parametrize("name", ["nvfp4", "float8_e4m3fn", "float4_e2m1fn_x2"])
def test_the_devices_product_is_ours(name: str) -> None:
    """On a device that multiplies block-scaled codes, the result is that of the values."""
    kwargs: Any = QuantizeTensorToNVFP4Kwargs(use_dynamic_per_tensor_scale=True)
    if name != "nvfp4":
        kwargs = QuantizeTensorToMXKwargs(MXElementType(name), 32, RCEIL)
    weight = MAKERS[name](_weight(256, 512).cuda().bfloat16(), act_quant_kwargs=kwargs)
    x = _weight(64, 512).cuda().bfloat16()
    expected = weight.activation_seen(x).float() @ weight.dequantize(torch.float32).t()
    error = (linear(x, weight).float() - expected).abs().max() / expected.abs().max()
    assert error <= 2**-7
