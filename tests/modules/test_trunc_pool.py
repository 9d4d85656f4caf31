"""Average pools that drop bits: values, metadata, and plain tensors in place of quant tensors."""

import copy
import pickle

import brevitas.nn as qnn
import pytest
import torch
from brevitas.quant_tensor import IntQuantTensor as TheirTensor
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from qconfig.configs.int_quant import IntQuantConfig
from qconfig.errors import QuantTensorError
from qconfig.modules import (
    TruncAdaptiveAvgPool2d,
    TruncAvgPool2d,
    plain_inference,
    record_metadata,
)
from qconfig.tensors.quant_tensor import IntQuantTensor


def trunc(bits, rounding):
    """Return the config of a truncation."""
    return IntQuantConfig(bit_width=bits, rounding=rounding, scale_kind="EXTERNAL")


POOLS = {
    "windows": (lambda **k: qnn.TruncAvgPool2d(2, **k), TruncAvgPool2d, nn.AvgPool2d(2)),
    "strides": (
        lambda **k: qnn.TruncAvgPool2d(3, stride=1, **k),
        TruncAvgPool2d,
        nn.AvgPool2d(3, stride=1),
    ),
    "divisor": (
        lambda **k: qnn.TruncAvgPool2d(2, divisor_override=3, **k),
        TruncAvgPool2d,
        nn.AvgPool2d(2, divisor_override=3),
    ),
    "adaptive": (
        lambda **k: qnn.TruncAdaptiveAvgPool2d((1, 1), **k),
        TruncAdaptiveAvgPool2d,
        nn.AdaptiveAvgPool2d((1, 1)),
    ),
    "adaptive_two": (
        lambda **k: qnn.TruncAdaptiveAvgPool2d(2, **k),
        TruncAdaptiveAvgPool2d,
        nn.AdaptiveAvgPool2d(2),
    ),
}


def fields(*, signed=False, zero_point=0.0, bits=4, batch=2):
    """Return the fields of an image of integers."""
    generator = torch.Generator().manual_seed(bits)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    codes = torch.randint(low, high, (batch, 3, 6, 4), generator=generator).float()
    scale, zero = torch.tensor(0.5), torch.tensor(zero_point)
    return (codes - zero) * scale, scale, zero, torch.tensor(float(bits)), signed, False


def pool(name, **more):
    """Return our pool."""
    _, ours, source = POOLS[name]
    return ours(copy.deepcopy(source), **({"return_quant_tensor": True} | more)).eval()


@pytest.mark.parametrize(("bits", "rounding"), [(8, "ROUND"), (4, "FLOOR"), (3, "CEIL")])
@pytest.mark.parametrize("given", [{}, {"signed": True}, {"zero_point": 2.0}, {"bits": 8}])
@pytest.mark.parametrize("name", POOLS)
def test_results(name, given, bits, rounding):
    """Values, scale, zero point and bits of a truncated average are Brevitas'."""
    theirs, _, _ = POOLS[name]
    values = fields(**given)
    one = theirs(bit_width=bits, float_to_int_impl_type=rounding.lower()).eval()(
        TheirTensor(*values)
    )
    other = pool(name, trunc=trunc(bits, rounding))(IntQuantTensor(*values))
    for field in ("value", "scale", "zero_point", "bit_width"):
        assert torch.equal(getattr(one, field), getattr(other, field)), field
    assert other.signed is values[4]


def test_eight_bits_are_the_default():
    """Nothing said, averages are rounded to 8 bits, as in Brevitas."""
    values = fields()
    one = qnn.TruncAvgPool2d(2).eval()(TheirTensor(*values))
    assert torch.equal(one.value, pool("windows")(IntQuantTensor(*values)).value)


def test_gradients():
    """Gradients pass as in Brevitas."""
    value, *others = fields()
    found = []
    for make, module in ((TheirTensor, qnn.TruncAvgPool2d(2)), (IntQuantTensor, pool("windows"))):
        leaf = value.clone().requires_grad_()
        module.train()(make(leaf, *others)).value.square().sum().backward()
        found.append(leaf.grad)
    assert torch.equal(*found)


def recorded(name, **more):
    """Return a pool that has been told what its input is, the input, and what it gives."""
    module, x = pool(name, trunc=trunc(4, "FLOOR"), **more), IntQuantTensor(*fields())
    with record_metadata(module):
        expected = module(x).value
    return module, x.value, expected


@pytest.mark.parametrize("name", POOLS)
def test_plain_tensors_twice(name):
    """From what is remembered, plain tensors are truncated the same, again and again."""
    module, values, expected = recorded(name)
    with plain_inference(module):
        outputs = [module(values), module(values)]
        half = module(values[:1])
    for output in outputs:
        assert type(output) is torch.Tensor
        assert torch.equal(output, expected)
    assert torch.equal(half, expected[:1])


@pytest.mark.parametrize("name", POOLS)
def test_plain_tensors_in_graphs(name):
    """Exported and compiled, what is remembered is part of the graph."""
    module, values, expected = recorded(name)
    with plain_inference(module):
        exported = torch.export.export(module, (values,)).module()
        assert torch.equal(exported(values), expected)
        assert torch.equal(exported(values), expected)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(values), expected)


@pytest.mark.parametrize("name", POOLS)
def test_plain_tensors_that_are_fake(name):
    """Fake tensors pass twice in a row."""
    module, values, expected = recorded(name)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, plain_inference(module):
        fake = mode.from_tensor(values)
        assert module(fake).shape == expected.shape
        assert module(fake).shape == expected.shape


def test_quant_tensors_that_are_fake():
    """A quant tensor of fake tensors passes too."""
    module = pool("windows")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        value, *others = (mode.from_tensor(f) if hasattr(f, "dim") else f for f in fields())
        assert module(IntQuantTensor(value, *others)).shape == (2, 3, 3, 2)


def test_ordinary_averages_of_plain_tensors():
    """Outside of plain_inference, a plain tensor gives its ordinary average."""
    module, values, _ = recorded("windows")
    module.return_quant_tensor = False
    assert torch.equal(module(values), nn.functional.avg_pool2d(values, 2))


def test_a_quant_tensor_cannot_be_made_of_plain_ones():
    """A pool that is to return a quant tensor says what it lacks."""
    with pytest.raises(QuantTensorError, match="TruncAvgPool2d has no quant tensor to return"):
        pool("windows")(torch.ones(1, 1, 2, 2))


def test_nothing_recorded():
    """In plain_inference, a pool that was told nothing refuses to guess."""
    module = pool("windows")
    with plain_inference(module), pytest.raises(QuantTensorError, match="has not been told"):
        module(torch.ones(1, 1, 2, 2))
    with pytest.raises(QuantTensorError, match="has not been told what its input is"):
        module.input_metadata.tensor()


def test_what_is_remembered_goes_along():
    """Copies, pickles and conversions keep it, and no state dict has it."""
    module, values, expected = recorded("windows")
    assert module.state_dict() == {}
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        with plain_inference(other):
            assert torch.equal(other(values), expected)
    module.double()
    assert module.input_metadata.scale.dtype is torch.float64


def test_what_is_remembered_is_a_tensor_of_metadata():
    """It can be looked at as a quant tensor without a value."""
    module, values, _ = recorded("windows")
    metadata = module.input_metadata.tensor()
    assert metadata.is_metadata_only
    assert metadata.shape == values.shape
    assert metadata.scale == 0.5
    assert metadata.bit_width == 4


def test_the_mode_ends():
    """After plain_inference, also after an error in it, modules are as they were."""
    module, values, expected = recorded("windows")
    with pytest.raises(ZeroDivisionError), plain_inference(module):
        raise ZeroDivisionError
    assert isinstance(module(IntQuantTensor(*fields())), IntQuantTensor)
    with plain_inference(module):
        assert torch.equal(module(values), expected)


def test_a_zero_point_that_takes_the_sum_out_of_its_range_is_refused():
    """Brevitas clamps such sums and calls the wrong average valid; here it is an error."""
    codes = torch.zeros(1, 1, 2, 2)
    tensor = IntQuantTensor((codes - 9) * 0.5, 0.5, 9.0, 4, signed=False)
    pool = TruncAvgPool2d(nn.AvgPool2d(2), trunc=trunc(4, "FLOOR"))
    with pytest.raises(QuantTensorError, match="leave their range"):
        pool(tensor)
