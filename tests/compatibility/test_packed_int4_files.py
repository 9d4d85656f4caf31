"""Int4 codes that real torchao releases packed for kernels give their writers' values."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

from qconfig import load_checkpoint
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors.cpu_order import CpuOrders, Packed, with_cpu_order
from qconfig.layouts.int4_packing import CpuInt4Order
from qconfig.migrations.cutlass_int4_packed_tensor_layout import CutlassInt4PackedTensorLayoutV1
from qconfig.migrations.int4_opaque_tensor_layout import (
    Int4OpaqueTensorLayoutV1,
    Int4OpaqueTensorLayoutV2,
)
from qconfig.versioning import Layout
from tests.checkpoints.builders import checkpoint_of
from tests.torchao_files import Sample, samples


def params(*prefixes: str) -> list[Any]:
    """Return the samples whose fixture begins so."""
    return [pytest.param(s, id=s.id) for prefix in prefixes for s in samples(prefix)]


PACKED = params(
    "int4_weight_only_g32_cpu_layout",
    "int4_weight_only_opaque",
    "awq_int4_opaque",
    "awq_int4_default_v1",
)
# 0.8 and 0.9 stored HQQ's zero points, which are codes, where their kernel takes values.
BROKEN = ("0.8.0-int4_weight_only_g32_cpu_layout_hqq", "0.9.0-int4_weight_only_g32_cpu_layout_hqq")
SOUND = [p for p in PACKED if not p.id.startswith(BROKEN)]
MULTIPLIED = [p for p in PACKED if not p.id.startswith("0.8.0")]
HALVES = params("int4_dynact_int4_weight")


def parts_of(sample: Sample) -> dict[str, dict[str, torch.Tensor]]:
    """Return the inner tensors of each quantized parameter by field."""
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(sample.file).items():
        if "::" in name:
            parameter, _, path = name.partition("::")
            parts.setdefault(parameter, {})[path.rpartition(".")[2]] = tensor
    return parts


def packed_of(fields: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the codes, which have two names."""
    return fields["packed_weight"] if "packed_weight" in fields else fields["qdata"]


def layout_of(fields: dict[str, torch.Tensor]) -> Any:
    """Return the layout of a release's form, in the order that was found."""
    packed, pairs = packed_of(fields), fields["scale_and_zero"]
    rows, columns = packed.shape[0], 2 * packed.shape[1]
    block = (1, columns // pairs.shape[0])
    layout: Layout
    if "packed_weight" in fields:
        layout = Int4OpaqueTensorLayoutV1(
            LazyTensor.of(packed), LazyTensor.of(pairs), block, pairs.dtype
        )
    else:
        factor = fields.get("act_pre_scale")
        layout = Int4OpaqueTensorLayoutV2(
            LazyTensor.of(packed),
            LazyTensor.of(pairs),
            block,
            (rows, columns),
            pairs.dtype,
            act_pre_scale=None if factor is None else LazyTensor.of(factor),
        )
    orders = CpuOrders([Packed(LazyTensor.of(packed), LazyTensor.of(pairs))])
    return with_cpu_order(layout, LazyTensor.of(packed), orders)[0]


def loaded(folder: Any, layouts: dict[str, Layout]) -> dict[str, Any]:
    """Return the tensors of a checkpoint of these layouts."""
    return load_checkpoint(checkpoint_of(folder, layouts))


@pytest.mark.parametrize("sample", PACKED)
def test_the_order_is_found(sample: Sample) -> None:
    """Codes and zero points of every file agree on the processor that its writer had."""
    for fields in parts_of(sample).values():
        assert layout_of(fields).cpu_order is CpuInt4Order.AVX2


@pytest.mark.parametrize("sample", MULTIPLIED)
def test_outputs_are_the_writers(sample: Sample, tmp_path) -> None:
    """Exactly multiplied and rounded once, values give the kernel's output bit for bit."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    floats, stored = load_file(sample.weights), parts_of(sample)
    layouts = {name: layout_of(fields) for name, fields in stored.items()}
    for parameter, tensor in loaded(tmp_path, layouts).items():
        module, x = parameter.removesuffix(".weight"), inputs[parameter.removesuffix(".weight")]
        if "scale" in stored[parameter]:  # the wrapper of AWQ up to 0.13 divides
            x = x / stored[parameter]["scale"]
        seen = tensor.activation_seen(x).double()
        product = (seen @ tensor.dequantize(torch.float64).t()).to(x.dtype)
        bias = floats.get(f"{module}.bias")
        result = product if bias is None else product + bias
        assert torch.equal(result, truth[f"{module}.out"])
        kernel = linear(x, tensor, bias)
        error = (kernel.double() - truth[f"{module}.out"].double()).abs().max()
        assert error <= 2**-7 * truth[f"{module}.out"].abs().max()


@pytest.mark.parametrize("sample", [p for p in SOUND if "opaque" not in p.id])
def test_values_are_the_writers_but_for_one_rounding_more(sample: Sample, tmp_path) -> None:
    """`dequantize` of the writer rounded the product before it added the zero point."""
    truth = load_file(sample.truth)
    layouts = {name: layout_of(fields) for name, fields in parts_of(sample).items()}
    for parameter, tensor in loaded(tmp_path, layouts).items():
        group = tensor.shape[1] // tensor.scale.shape[0]
        zero = tensor.zero_point.t().repeat_interleave(group, 1)
        product = tensor.dequantize(torch.float64) - zero.double()
        assert torch.equal(product.to(zero.dtype) + zero, truth[f"{parameter}.dequant"])
        ours, theirs = tensor.dequantize().double(), truth[f"{parameter}.dequant"].double()
        roundings = product.abs() + ours.abs() + theirs.abs()
        assert ((ours - theirs).abs() <= 2**-8 * roundings).all()


@pytest.mark.parametrize("sample", HALVES)
def test_values_of_halves_are_the_writers(sample: Sample, tmp_path) -> None:
    """Codes of Cutlass's kernels dequantize to the writer's values bit for bit."""
    truth, stored = load_file(sample.truth), parts_of(sample)
    layouts = {
        name: CutlassInt4PackedTensorLayoutV1(
            **fields,
            block_size=(1, 2 * fields["int_data"].shape[1]),
            dtype=truth[f"{name}.dequant"].dtype,
            activation_quantization="int4_sym_per_token",
        )
        for name, fields in stored.items()
    }
    found = loaded(tmp_path, layouts)
    assert found.keys() == stored.keys()
    for parameter, tensor in found.items():
        assert torch.equal(tensor.dequantize(), truth[f"{parameter}.dequant"])
