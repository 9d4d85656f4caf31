import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.errors import UsageError
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from qconfig.testing.subject import equal_packed
from tests.tensors.intx_static_samples import (
    ASYMMETRIC,
    GROUPS,
    ROWS,
    channel_scales,
    config,
    packed,
    zero_points,
)
from tests.tensors.samples import activation, float_weight

CALIBRATION = (
    "act_quant_scale",
    "act_quant_zero_point",
    "output_act_quant_scale",
    "output_act_quant_zero_point",
)


def calibrated():
    """Return a weight with float16 and bfloat16 scales of activations and outputs."""
    return packed(
        granularity=ROWS,
        act_scale=torch.tensor(0.03, dtype=torch.bfloat16),
        act_zero_point=5,
        output_scale=channel_scales(32, torch.float16),
        output_zero_point=zero_points(32),
        weight_mapping_type=ASYMMETRIC,
    )


def dtypes(tensor):
    """Return the element types of all inner tensors."""
    return {name: t.dtype for name, t in tensor.inner_tensors.items() if t is not None}


@pytest.mark.parametrize("move", [lambda t: t.to("meta"), lambda t: t.to(device="meta")])
def test_a_move_to_a_device_keeps_all_types(move):
    """Calibration tensors go along and keep their types; nothing stays behind."""
    tensor = calibrated()
    moved = move(tensor)
    assert moved.dtype == torch.float32
    assert dtypes(moved) == dtypes(tensor)
    assert {t.device.type for t in moved.inner_tensors.values() if t is not None} == {"meta"}


def test_a_module_on_its_way_to_a_device_keeps_all_types():
    """module.to(device) does the same for a parameter."""
    layer = nn.Linear(64, 32, bias=False)
    layer.weight = nn.Parameter(calibrated(), requires_grad=False)
    before = dtypes(layer.weight)
    assert dtypes(layer.to("meta").weight) == before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_move_to_a_type_changes_what_is_shown_only(dtype):
    """to(dtype) changes the type that the tensor shows and dequantizes to; fields keep all bits."""
    tensor = calibrated()
    moved = tensor.to(dtype)
    assert moved.dtype == dtype
    assert moved.dequantize().dtype == dtype
    assert dtypes(moved) == dtypes(tensor)
    for name, value in tensor.inner_tensors.items():
        assert value is None or torch.equal(getattr(moved, name), value)
    x = activation(4, 64, dtype=dtype)
    assert torch.equal(linear(x, moved), linear(x, tensor))


@pytest.mark.parametrize("move", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
def test_a_module_that_changes_its_type_keeps_its_calibration(move):
    """half(), bfloat16() and double() of a module leave scales as they were."""
    layer = nn.Linear(64, 32)
    layer.weight = nn.Parameter(calibrated(), requires_grad=False)
    before = {n: getattr(layer.weight, n).clone() for n in CALIBRATION}
    move(layer)
    assert all(torch.equal(getattr(layer.weight, n), t) for n, t in before.items())
    x = activation(4, 64, dtype=layer.bias.dtype)
    assert layer(x).dtype == layer.bias.dtype


@pytest.mark.parametrize("granularity", [GROUPS, ROWS])
def test_pickles_are_read_with_weights_only(granularity):
    """torch.save and torch.load(weights_only=True) give every bit back, so does pickle."""
    tensor = packed(granularity=granularity, act_scale=channel_scales(64), output_scale=0.5)
    file = io.BytesIO()
    torch.save({"weight": tensor}, file)
    file.seek(0)
    assert equal_packed(torch.load(file, weights_only=True)["weight"], tensor)
    assert equal_packed(pickle.loads(pickle.dumps(tensor)), tensor)


def test_weights_share_no_calibration():
    """Two weights of one config have scales of their own: filling one leaves the other."""
    shared = config(act_zero_point=3, output_scale=0.5)
    builder = IntxStaticBuilder()
    first, second = (builder.build(shared, float_weight(seed=i)) for i in range(2))
    first.act_quant_scale.fill_(7)
    assert second.act_quant_scale.tolist() == pytest.approx([0.03])
    assert shared.act_quant_scale.item() == pytest.approx(0.03)


def test_copies_carry_the_calibration():
    """copy_ brings scales along, for the codes of the source mean nothing without them."""
    target, source = packed(act_scale=0.03), packed(act_scale=0.05, seed=1)
    target.copy_(source)
    assert equal_packed(target, source)


def embedding_pair(**options):
    """Return an embedding with a packed weight, and one with the same values in float."""
    tensor = packed(act_zero_point=3)
    quantized = nn.Embedding(32, 64, **options)
    quantized.weight = nn.Parameter(tensor, requires_grad=False)
    plain = nn.Embedding.from_pretrained(tensor.dequantize().clone(), **options)
    return quantized, plain


INDICES = torch.tensor([[0, 3, 3], [31, 1, 0]])


@pytest.mark.parametrize("padding_idx", [None, 0, 3, -1])
def test_embedding_with_a_padding_index(padding_idx):
    """The rows are those of the dequantized weight, that of the padding index too."""
    quantized, plain = embedding_pair(padding_idx=padding_idx)
    assert torch.equal(quantized(INDICES), plain(INDICES))
    assert quantized.padding_idx == plain.padding_idx


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.5, 7.5, 1e6])
def test_embedding_with_a_largest_norm(max_norm, norm_type):
    """Rows are shortened as torch does it, any norm; the weight is left as it is."""
    quantized, plain = embedding_pair(max_norm=max_norm, norm_type=norm_type)
    before = {n: t.clone() for n, t in quantized.weight.inner_tensors.items() if t is not None}
    for _ in range(2):
        assert torch.allclose(quantized(INDICES), plain(INDICES), rtol=1e-6, atol=0)
    for name, value in before.items():
        assert torch.equal(getattr(quantized.weight, name), value)


def test_a_padding_index_that_is_no_row_is_refused():
    """As in torch, the index has to be within the weight."""
    with pytest.raises(UsageError, match="padding_idx is not a row"):
        nn.functional.embedding(INDICES, packed(), padding_idx=32)


def test_embedding_leaves_activations_alone():
    """Scales of activations are those of linears: a row that is looked up is the weight's."""
    tensor = packed(act_scale=5.0, output_scale=100.0)
    assert isinstance(tensor, IntxStaticActivationTensor)
    assert torch.equal(nn.functional.embedding(INDICES, tensor), tensor.dequantize()[INDICES])
