"""AffineQuantizedTensor with int4 codes for a kernel: values as rounded, and what is refused."""

import attrs
import pytest
import torch

from qconfig.checkpoints.writer import Writer
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import ContainerError, MigrationError, QconfigError
from qconfig.layouts import Int4TensorLayout
from tests.dialects.stored_arrangements import ARRANGEMENTS
from tests.dialects.stored_forms import FORMS
from tests.dialects.stored_samples import G, K, N, domain, lazy

CPU = ARRANGEMENTS["Int4CPUAQTTensorImpl"][0]
KERNELS = [
    *(ARRANGEMENTS[f"TensorCoreTiledAQT{what}"][0] for what in ("Layout", "TensorImpl")),
    CPU,
    ARRANGEMENTS["Int4XPUAQTTensorImpl"][0],
]
SHARDS = ARRANGEMENTS["UintxAQTTensorImpl"][0]


def saying(tensor: Stored, **fields: object) -> Stored:
    """Return the tensor with other fields in its shell."""
    return attrs.evolve(tensor, fields={**tensor.fields, **fields})


def with_pairs(tensor: Stored, zero: float) -> Stored:
    """Return an int4 tensor for CPUs with scales of 1 and these zero points."""
    pairs = torch.stack([torch.ones(K // G, N), torch.full((K // G, N), zero)], -1).bfloat16()
    inside = tensor.fields["tensor_impl"]
    return saying(tensor, tensor_impl=saying(inside, scale_and_zero=LazyTensor.of(pairs)))


@pytest.mark.parametrize("tensor", KERNELS[:3], ids=lambda t: next(iter(t.fields)))
def test_values_are_rounded_as_by_the_writer(tensor):
    """The layout says that products of code and scale are rounded; the steps are in the report."""
    read = read_tensor(tensor)
    assert isinstance(read.layout, Int4TensorLayout)
    assert read.layout.rounds_products
    assert read.origin.steps[-1].target.name == "Int4TensorLayout"


@pytest.mark.parametrize("bounds", [(0, 7), (1, 15), (-8, 7), (None, None)])
@pytest.mark.parametrize("tensor", KERNELS)
def test_other_bounds_than_the_kernels_are_refused(tensor, bounds):
    """Torchao's kernel takes codes from 0 to 15, whose middle is 8."""
    with pytest.raises(MigrationError, match="quant_min and quant_max") as caught:
        read_tensor(saying(tensor, quant_min=bounds[0], quant_max=bounds[1]))
    assert caught.value.pointer in ("/tensor_impl/quant_max", "/layout_tensor/quant_max")
    assert caught.value.found == repr(bounds)


@pytest.mark.parametrize("tensor", KERNELS)
def test_other_zero_points_than_the_kernels_are_refused(tensor):
    """A domain that contradicts the tensors is named."""
    is_xpu = tensor is KERNELS[3]
    text = "zero points beside scales are values" if is_xpu else "have zero points that are values"
    for name in ("FLOAT" if is_xpu else "INT", "NONE"):
        with pytest.raises(MigrationError, match=text) as caught:
            read_tensor(saying(tensor, zero_point_domain=domain(name)))
        assert caught.value.found == f"'ZeroPointDomain.{name}'"


@pytest.mark.parametrize(
    ("writer", "said"),
    [("0.7", "changes"), ("0.8", "changes"), ("0.9", None), ("0.16", None), (None, "ambiguities")],
)
def test_products_up_to_08_took_rounded_weights(writer, said):
    """The report says so of those writers, and of an unknown one that it may be so."""
    read = read_tensor(CPU, None if writer is None else Writer.parse(f"torchao=={writer}.0"))
    texts = {name: getattr(read.origin, name) for name in ("changes", "ambiguities")}
    found = [name for name, each in texts.items() if any("up to 0.8" in text for text in each)]
    assert found == ([] if said is None else [said])


def test_products_of_float32_are_not_rounded():
    """There is nothing to say of weights that show float32."""
    wide = attrs.evolve(CPU, dtype=DType.FLOAT32)
    origin = read_tensor(wide, Writer.parse("torchao==0.8.0")).origin
    assert origin.changes == ()


@pytest.mark.parametrize(("zero", "is_said"), [(40.0, False), (-41.0, True)])
def test_codes_that_bfloat16_cannot_tell_apart_are_reported(zero, is_said):
    """Far from 0, values of neighbouring codes are one number, and torchao showed others."""
    origin = read_tensor(with_pairs(CPU, zero), Writer.parse("torchao==0.9.0")).origin
    assert any("up to 41 times" in text for text in origin.changes) == is_said


@pytest.mark.parametrize(("low", "high", "is_read"), [(0, 7, True), (None, None, False), (0, 8, 0)])
def test_shards_with_zero_points_of_another_code_are_refused(low, high, is_read):
    """Without bounds torchao took those of uint8, and 128 for the middle of three bits."""
    tensor = saying(SHARDS, quant_min=low, quant_max=high, zero_point_domain=domain("FLOAT"))
    inside = saying(tensor.fields["tensor_impl"], zero_point=lazy(N))
    tensor = saying(tensor, tensor_impl=inside)
    if is_read:
        assert read_tensor(tensor).layout.zero_point_domain.value == "FLOAT"
        return
    with pytest.raises(MigrationError, match="another code than the middle one") as caught:
        read_tensor(tensor)
    assert caught.value.expected == "0 and 7"


@pytest.mark.parametrize("tensor", KERNELS[:3], ids=lambda t: next(iter(t.fields)))
def test_blocks_of_no_dimensions_are_refused(tensor):
    """A block size that is empty fits no tensor, and is named."""
    with pytest.raises(QconfigError) as caught:
        read_tensor(saying(tensor, block_size=()))
    assert "block_size" in str(caught.value)


@pytest.mark.parametrize("kind", [["symmetric"], {}, 3, "lopsided"])
def test_a_mapping_that_is_none_is_refused(kind):
    """What the second kernel of 0.17 is told must be one of its two words."""
    tensor = saying(FORMS["Int4OpaqueTensor 0.17"][0], act_mapping_type=kind)
    with pytest.raises(ContainerError, match="act_mapping_type is not what") as caught:
        read_tensor(tensor)
    assert caught.value.expected == "symmetric or asymmetric"
