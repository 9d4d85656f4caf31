"""Arithmetic of tensors of small floats: negation and absolute values have rules."""

import pytest
import torch

from qconfig.errors import UnsupportedOperationError
from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor

FORMATS = {
    "e4m3": (4, 3, 7, True, None, ("111",)),
    "e5m2": (5, 2, 15, True, ("00",), ("01", "11", "10")),
    "e2m1": (2, 1, 1, True, None, None),
}


def floats(name="e4m3", *, signed=True, scale=0.5):
    """Return small floats of a format, the largest ones among them."""
    largest = {"e4m3": 448.0, "e5m2": 57344.0, "e2m1": 6.0}[name]
    small = torch.tensor([[0.0, 1.0, -1.5], [largest, -largest, 0.5]])
    return FloatQuantTensor(
        (small if signed else small.abs()) * scale, scale, 0, *FORMATS[name], signed
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("scale", [0.5, torch.tensor([[1.0], [0.25]])])
@pytest.mark.parametrize(
    ("operation", "signed"), [(torch.neg, True), (torch.abs, False), (lambda x: +x, True)]
)
def test_signs_change_alone(name, scale, operation, signed):
    """Format, scale and zero point stay, and the result is valid."""
    tensor = floats(name, scale=scale)
    result = operation(tensor)
    assert torch.equal(result.value, operation(tensor.value))
    assert torch.equal(result.scale, tensor.scale)
    assert torch.equal(result.zero_point, tensor.zero_point)
    assert result.inner_attributes == tensor.inner_attributes | {"signed": signed}
    assert result.max_value == tensor.max_value
    assert result.is_valid


@pytest.mark.parametrize("operation", [torch.neg, lambda x: -x, lambda x: x.negative()])
def test_what_has_no_sign_cannot_be_negated(operation):
    """There is no such float in the format: NotImplementedError, as Brevitas raises."""
    with pytest.raises(UnsupportedOperationError, match="without a sign") as raised:
        operation(floats(signed=False))
    assert isinstance(raised.value, NotImplementedError)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x + x,
        lambda x: x - x,
        lambda x: x * x,
        lambda x: x / (x.value + 1),
        lambda x: x @ x.t(),
        lambda x: x + 1,
        lambda x: 2.0 * x,
        lambda x: 1 - x,
        lambda x: torch.add(x, x, alpha=2),
        lambda x: x + IntQuantTensor(torch.ones(2, 3), 0.5, 0, 8, True),
        lambda x: IntQuantTensor(torch.ones(2, 3), 0.5, 0, 8, True) + x,
    ],
)
def test_other_arithmetic_is_plain(operation):
    """A sum of small floats is none of the format in general: results are plain."""
    assert type(operation(floats())) is torch.Tensor


def test_gradients_of_a_negation():
    """Gradients reach value and scale."""
    value, scale = torch.ones(2, requires_grad=True), torch.ones((), requires_grad=True)
    result = -FloatQuantTensor(value, scale, 0, *FORMATS["e4m3"], True)
    (result.value.sum() + 3 * result.scale).backward()
    assert value.grad.tolist() == [-1.0, -1.0]
    assert scale.grad.item() == 3.0
