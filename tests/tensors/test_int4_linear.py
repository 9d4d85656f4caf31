import gc
import subprocess
import sys
import weakref

import pytest
import torch
from torch.nn.functional import linear

from qconfig.tensors import int4_linear as module
from qconfig.tensors import int4_prepack
from qconfig.tensors.int4_linear import int4_linear
from qconfig.tensors.int4_prepack import GROUP_SIZES, prepacked, refilled
from tests.tensors.int4_samples import FLOATS, assert_close, double, packed_int4
from tests.tensors.samples import float_weight

HAS_KERNEL = hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu")
needs_kernel = pytest.mark.skipif(not HAS_KERNEL, reason="torch has no int4 kernel for CPUs")


def fields(weight):
    """Return what the operator takes of a tensor."""
    return weight.qdata, weight.scale.t(), weight.zero_point.t()


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("shape", [(32, 64, 32), (33, 96, 8), (16, 256, 256), (300, 512, 64)])
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_linear_is_the_product_with_the_values(dtype, shape, rows):
    """Every type, group size and batch gives the exact product up to rounding, time after time."""
    n, k, group = shape
    weight = packed_int4(n, k, group=group, dtype=dtype)
    x = float_weight(rows, k, dtype=dtype, seed=1)
    exact = x.double() @ double(weight).t()
    first = linear(x, weight)
    assert_close(first, exact)
    assert torch.equal(linear(x, weight), first)


@pytest.mark.parametrize("weight_dtype", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations_of_another_type(weight_dtype, dtype):
    """A weight serves activations of any type, scales that bfloat16 does not hold included."""
    weight = packed_int4(dtype=weight_dtype)
    x = float_weight(3, 64, dtype=dtype, seed=1)
    assert_close(linear(x, weight), x.double() @ double(weight).t())
    assert linear(x, weight).dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_transposed_weight_multiplies_too(dtype):
    """The product with a transposed tensor is that with its values."""
    weight = packed_int4(32, 64, dtype=dtype)
    x = float_weight(3, 32, dtype=dtype, seed=1)
    assert_close(linear(x, weight.t()), x.double() @ double(weight))
    assert_close(x @ weight, x.double() @ double(weight))


def test_gradient_reaches_the_activation():
    """The gradient is the product with the values, of a transposed tensor as well."""
    weight = packed_int4(32, 64)
    for tensor, values in ((weight, double(weight)), (weight.t(), double(weight).t())):
        x = float_weight(3, values.shape[1], seed=1).requires_grad_()
        outer = float_weight(3, values.shape[0], seed=2)
        linear(x, tensor).backward(outer)
        assert_close(x.grad, outer.double() @ values)


@pytest.mark.parametrize("transpose", [False, True])
def test_operator_keeps_torchs_rules(transpose):
    """Schema, fake implementation and autograd registration pass torch's own checks."""
    x = float_weight(3, 32 if transpose else 64, seed=1).requires_grad_()
    torch.library.opcheck(module._operator, (x, *fields(packed_int4()), transpose))


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_empty_batches(shape):
    """No rows in, no rows out."""
    assert linear(torch.empty(shape), packed_int4()).shape == (*shape[:-1], 32)


def test_float8_activations_are_quantized_row_by_row():
    """activation_dtype float8_e4m3fn rounds the activation to 448 times its largest value."""
    weight = packed_int4(activation_dtype="float8_e4m3fn")
    x = float_weight(3, 64, seed=1)
    scale = x.abs().amax(1, keepdim=True) / 448
    seen = (x / scale).to(torch.float8_e4m3fn).double() * scale
    assert_close(linear(x, weight), seen @ double(weight).t())
    assert not torch.equal(seen.float(), x)


def test_activation_scale_comes_first():
    """The factor is multiplied before the activation is quantized."""
    factor = torch.linspace(0.1, 10, 64)
    weight = packed_int4(activation_dtype="float8_e4m3fn")
    scaled = weight.with_activation_scale(factor)
    x = float_weight(3, 64, seed=1)
    assert torch.equal(linear(x, scaled), linear(x * factor, weight))


@needs_kernel
@pytest.mark.parametrize("group", GROUP_SIZES)
def test_kernel_is_no_worse_than_rounded_values(group):
    """Torch's kernel is at most as far from float64 as the product with bfloat16 values."""
    weight = packed_int4(64, 512, group=group, dtype=torch.bfloat16)
    x = float_weight(8, 512, dtype=torch.bfloat16, seed=1)
    assert prepacked(*fields(weight)) is not None
    exact = x.double() @ double(weight).t()
    ours = (linear(x, weight).double() - exact).norm()
    assert ours <= (x @ weight.dequantize().t()).double().sub(exact).norm()


@needs_kernel
def test_kernels_form_is_made_once_and_dropped_with_the_weight():
    """Two calls share one form; nothing is kept for a weight that is gone."""
    weight = packed_int4(dtype=torch.bfloat16)
    form = prepacked(*fields(weight))
    assert prepacked(*fields(weight)) is form
    dropped = weakref.ref(form)
    before = len(int4_prepack._storages)
    del weight, form
    gc.collect()
    assert len(int4_prepack._storages) == before - 1
    assert dropped() is None


@needs_kernel
@pytest.mark.parametrize("field", ["qdata", "scale", "zero_point"])
def test_a_change_in_place_is_seen(field):
    """After copy_ into any field the product is that of the new values."""
    weight = packed_int4(dtype=torch.bfloat16)
    other = packed_int4(dtype=torch.bfloat16, seed=3)
    x = float_weight(3, 64, dtype=torch.bfloat16, seed=1)
    linear(x, weight)
    getattr(weight, field).copy_(getattr(other, field))
    assert_close(linear(x, weight), x.double() @ double(weight).t())


@needs_kernel
def test_new_scales_at_an_old_address_are_seen():
    """A scale that took the place of a freed one is not taken for it."""
    weight = packed_int4(dtype=torch.bfloat16)
    qdata, scale, zero = fields(weight)
    old = scale.contiguous()
    form = prepacked(qdata, old, zero)
    place = old.data_ptr()
    del old
    kept = []
    for _ in range(50):
        new = (scale * 2).contiguous()
        kept.append(new)
        if new.data_ptr() == place:
            break
    assert not torch.equal(prepacked(qdata, new, zero).scale_and_zero, form.scale_and_zero)


@needs_kernel
def test_state_dicts_are_seen():
    """load_state_dict with assign=False changes what a used module computes."""
    model, source = (torch.nn.Linear(64, 32, bias=False, dtype=torch.bfloat16) for _ in range(2))
    model.weight = torch.nn.Parameter(packed_int4(dtype=torch.bfloat16))
    source.weight = torch.nn.Parameter(packed_int4(dtype=torch.bfloat16, seed=3))
    x = float_weight(3, 64, dtype=torch.bfloat16, seed=1)
    model(x)
    model.load_state_dict(source.state_dict())
    assert torch.equal(model(x), source(x))


@needs_kernel
def test_forms_of_slices_never_exceed_their_storage():
    """Experts have a form each; a slice that overlaps them has none, and computes all the same."""
    experts = packed_int4(4, 32, 64, dtype=torch.bfloat16)
    x = float_weight(3, 64, dtype=torch.bfloat16, seed=1)
    for i in range(4):
        assert prepacked(*fields(experts[i])) is not None
    part = experts[0][:16]
    assert prepacked(*fields(part)) is None
    assert_close(linear(x, part), x.double() @ double(part).t())


@needs_kernel
def test_nothing_is_kept_where_changes_are_not_counted():
    """Tensors born in inference mode, and storages that are filled again, have no form."""
    with torch.inference_mode():
        born = packed_int4(dtype=torch.bfloat16)
        assert prepacked(*fields(born)) is None
    weight = packed_int4(dtype=torch.bfloat16)
    refilled(weight.qdata)
    assert prepacked(*fields(weight)) is None


def test_what_the_kernel_cannot_read_is_not_given_to_it():
    """Other groups, rows that 16 does not divide, and scales that bfloat16 does not hold."""
    for weight in (
        packed_int4(32, 64, group=16, dtype=torch.bfloat16),
        packed_int4(24, 64, dtype=torch.bfloat16),
        packed_int4(32, 64, dtype=torch.float32),
    ):
        assert prepacked(*fields(weight)) is None


SHAPES = """
import torch
from qconfig.tensors.int4_linear import int4_linear

generator = torch.Generator().manual_seed(0)
buffer = torch.randn(9000, generator=generator).bfloat16()
for n in (16, 48, 64, 112, 1040):
    for k, g in ((32, 32), (96, 32), (64, 64), (384, 128), (512, 256), (160, 32)):
        qdata = torch.randint(-128, 128, (n * k // 2 + 3,), dtype=torch.int8, generator=generator)
        for offset in (0, 1, 3):
            codes = qdata[offset : offset + n * k // 2].view(n, k // 2)
            scale = torch.rand(n, k // g, generator=generator).bfloat16()
            zero = torch.rand(n, k // g, generator=generator).bfloat16()
            for m in (1, 2, 7, 17):
                x = buffer[offset : offset + m * k].view(m, k)
                one = int4_linear(x, codes, scale, zero)
                two = int4_linear(x.repeat(33, 1), codes, scale, zero)[:m]
                assert (one.float() - two.float()).abs().max() <= 0.02 * two.float().abs().max()
print("done")
"""


@needs_kernel
def test_odd_shapes_and_addresses_do_not_end_the_process():
    """Every shape that is given to the kernel is computed, from unaligned addresses too."""
    result = subprocess.run(
        [sys.executable, "-c", SHAPES], check=False, capture_output=True, text=True
    )
    assert result.stdout == "done\n", result.stderr


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiled_graphs_use_the_kernels_form(backend):
    """One graph for all batches; it gives the bits of the eager call, after a change as well."""
    weight, other = (packed_int4(dtype=torch.bfloat16, seed=s) for s in (0, 3))
    compiled = torch.compile(linear, backend=backend, fullgraph=True, dynamic=True)
    for rows in (2, 7, 40):
        x = float_weight(rows, 64, dtype=torch.bfloat16, seed=1)
        assert torch.equal(compiled(x, weight), linear(x, weight))
    weight.qdata.copy_(other.qdata)
    assert torch.equal(compiled(x, weight), linear(x, weight))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_tensor_cores_compute_the_product():
    """On a GPU bfloat16 activations go through torch's kernel for tensor cores."""
    weight = packed_int4(64, 1024, dtype=torch.bfloat16)
    x = float_weight(5, 1024, dtype=torch.bfloat16, seed=1)
    found = int4_linear(x.cuda(), *(t.cuda() for t in fields(weight)))
    assert_close(found.cpu(), x.double() @ double(weight).t())
