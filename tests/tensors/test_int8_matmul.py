import pytest
import torch

from qconfig.tensors import int8_matmul as module
from qconfig.tensors.int8_matmul import int8_matmul, padded, shifted_product, trusted_kernels

KERNELS = ("blocked", "signed", "unsigned")
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    """Have one kernel serve all products; skip those that this machine does not have."""
    if request.param == "blocked":
        monkeypatch.setattr(module, "_fast_integers", lambda: False)
        return request.param
    if not module._fast_integers():
        pytest.skip("torch._int_mm is a loop of scalar steps on this processor")
    available = trusted_kernels()[request.param == "unsigned"]
    if not available:
        pytest.skip(f"torch has no exact {request.param} product here")
    monkeypatch.setattr(module, "trusted_kernels", lambda: (True, request.param == "unsigned"))
    return request.param


def codes(*shape, seed=0):
    """Return codes with rows of the two extremes."""
    generator = torch.Generator().manual_seed(seed)
    result = torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)
    result[:1], result[1:2] = -128, 127
    return result


def exact(left, right):
    """Return the product in int64."""
    return left.long() @ right.long().t()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rows", [0, 1, 2, 8, 9, 33])
@pytest.mark.parametrize("others", [0, 1, 3, 40])
def test_products_are_exact(rows, others):
    """Every kernel is exact for extremes, any K, and matrices without elements."""
    for columns in (0, 1, 2, 7, 64, 1024, 1025, 3000):
        left, right = codes(rows, columns), codes(others, columns, seed=1)
        found = int8_matmul(left, right)
        assert found.dtype == torch.int32
        assert torch.equal(found.long(), exact(left, right))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rows", [1, 8, 9, 33])
def test_row_sums_come_with_the_product(rows):
    """The row sums of the right operand are exact, and the shift is theirs."""
    left, right = codes(rows, 1030), codes(20, 1030, seed=1)
    total, sums, shift = shifted_product(left, right, sums=True)
    assert sums is not None
    assert torch.equal(sums.long(), right.long().sum(1))
    assert torch.equal(total.long() - shift * sums.long(), exact(left, right))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("columns", "dtype"), [(70_000, torch.int32), (140_000, torch.int64)])
def test_long_sums_do_not_overflow(columns, dtype):
    """Sums of the largest products stay exact beyond the length that int32 holds."""
    left = torch.full((10, columns), -128, dtype=torch.int8)
    right = torch.full((3, columns), -128, dtype=torch.int8)
    found = int8_matmul(left, right)
    assert found.dtype == dtype
    assert bool((found == 128 * 128 * columns).all())


@pytest.mark.usefixtures("kernel")
def test_any_strides():
    """A transposed right operand and a cut left one give the same."""
    left, right = codes(12, 60)[:, 10:], codes(50, 24, seed=1).t()
    assert torch.equal(int8_matmul(left, right).long(), exact(left, right))


def test_a_kernel_that_is_wrong_is_not_trusted(monkeypatch):
    """If the unsigned product is off by one, the probe says so and the signed one serves."""
    if not trusted_kernels()[0]:
        pytest.skip("torch has no exact integer product here")

    def wrong(left, right):
        total, sums, shift = right_one(left, right)
        return total + 1, sums, shift

    right_one = module._unsigned
    monkeypatch.setattr(module, "_unsigned", wrong)
    assert trusted_kernels.__wrapped__() == (True, False)


def test_a_missing_kernel_is_not_trusted(monkeypatch):
    """Without torch._int_mm neither kernel is trusted."""
    monkeypatch.delattr(torch, "_int_mm")
    assert trusted_kernels.__wrapped__() == (False, False)


@pytest.mark.parametrize("shape", [(1, 5, 3), (16, 8, 8), (17, 9, 20), (40, 64, 32)])
def test_operands_padded_for_cublas(shape):
    """Padded operands have the sizes that cuBLAS takes, and the same product."""
    m, k, n = shape
    left, right = codes(m, k), codes(n, k, seed=1)
    a, b = padded(left, right)
    assert a.shape[0] > 16
    assert not any(size % 8 for size in (a.shape[0] if m > 16 else 0, a.shape[1], b.shape[1]))
    assert torch.equal((a.long() @ b.long())[:m, :n], exact(left, right))


def test_other_devices_multiply_in_float64():
    """Where no integer product is known, float64 gives the exact one."""
    left, right = codes(5, 700), codes(6, 700, seed=1)
    total, sums, shift = module._in_float64(left, right, sums=True)
    assert (shift, total.dtype) == (0, torch.int32)
    assert torch.equal(total.long(), exact(left, right))
    assert torch.equal(sums.long(), right.long().sum(1))


@NEEDS_CUDA
@pytest.mark.parametrize("rows", [1, 16, 17, 40])
def test_products_on_cuda_are_exact(rows):
    """torch._int_mm on CUDA, with padded operands, is exact."""
    for columns, others in ((64, 32), (100, 30), (1025, 7)):
        left, right = codes(rows, columns), codes(others, columns, seed=1)
        found = int8_matmul(left.cuda(), right.cuda())
        assert torch.equal(found.cpu().long(), exact(left, right))
