"""Intx tensors that real torchao releases stored: upgraded, they give their values."""

import json
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.builders.base import builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.configs.granularity import PerGroup
from qconfig.configs.intx import IntxWeightOnlyConfig
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import (
    InputQuantFunction,
    IntxUnpackedToInt8TensorLayoutV1,
    IntxUnpackedToInt8TensorLayoutV2,
)
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.versioning import Layout
from tests.checkpoints.builders import checkpoint_of
from tests.torchao_files import Sample, samples

PREFIXES = ("intx_weight_only", "embedding_intx", "int8_dynact_intx_weight")
SAMPLES = [pytest.param(s, id=s.id) for prefix in PREFIXES for s in samples(prefix)]
LINEARS = [p for p in SAMPLES if "embedding" not in p.id]
CURRENT = [p for p in SAMPLES if p.values[0].release == "0.18.0"]
BOUNDS = {f"int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in range(1, 9)}


def layouts(sample: Sample) -> dict[str, Layout]:
    """Return the quantized tensors by parameter name, as layouts of the release's form."""
    tensors = load_file(sample.file)
    with safe_open(sample.file, "pt") as file:
        metadata = file.metadata() or {}
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if "::" in name:
            parameter, _, path = name.partition("::")
            parts.setdefault(parameter, {})[path.rpartition(".")[2]] = tensor
        elif "._weight_" in name:
            module, _, field = name.partition("._weight_")
            parts.setdefault(f"{module}.weight", {})[field] = tensor
    return {
        parameter: _layout(sample, fields, metadata.get(parameter))
        for parameter, fields in parts.items()
    }


def _layout(sample: Sample, fields: dict[str, Any], record: str | None) -> Layout:
    weight_dtype = next(t for t in sample.id.split("_") if t in BOUNDS)
    dynamic = "dynact" in sample.id
    dtype = load_file(sample.weights).popitem()[1].dtype
    if record is not None:
        said = json.loads(record)["_data"]
        kind = said["activation_quantization"]
        return IntxUnpackedToInt8TensorLayout(
            **fields,
            target_dtype=said["target_dtype"]["_data"],
            block_size=said["block_size"],
            dtype=said["dtype"]["_data"],
            activation_quantization=kind and ActivationQuantization(kind),
        )
    if "int_data" in fields:
        columns, scale = fields["int_data"].shape[1], fields["scale"]
        low, high = BOUNDS[weight_dtype]
        return IntxUnpackedToInt8TensorLayoutV1(
            **fields,
            block_size=(1, columns if scale.dim() == 1 else columns // scale.shape[1]),
            dtype=dtype,
            quant_min=low,
            quant_max=high,
            input_quant_func=InputQuantFunction.INT8_ASYMM_PER_TOKEN if dynamic else None,
        )
    return IntxUnpackedToInt8TensorLayoutV2(
        **fields,
        target_dtype=weight_dtype,
        block_size=(1, fields["qdata"].shape[1] // fields["scale"].shape[1]),
        dtype=dtype,
    )


@pytest.mark.parametrize("sample", SAMPLES)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth = load_file(sample.truth)
    stored = layouts(sample)
    assert stored
    upgrade_checkpoint(checkpoint_of(tmp_path / "old", stored), tmp_path / "new")
    source = tmp_path / "new" if (tmp_path / "new").exists() else tmp_path / "old"
    for parameter, tensor in load_checkpoint(source).items():
        assert isinstance(tensor, IntxUnpackedToInt8Tensor)
        expected = truth[f"{parameter}.dequant"]
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", LINEARS)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """The output differs from the writer's by no more than its type's rounding of the sum."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        module = parameter.removesuffix(".weight")
        expected = truth[f"{module}.out"]
        packed = IntxUnpackedToInt8Tensor.from_layout(layout)
        bias = biases.get(f"{module}.bias")
        result = torch.nn.functional.linear(inputs[module], packed, bias)
        error = (result.double() - expected.double()).abs().max()
        assert error <= 8 * torch.finfo(expected.dtype).eps * expected.abs().max()


@pytest.mark.parametrize("sample", CURRENT)
def test_our_builder_gives_the_codes_of_torchao_0_18(sample: Sample) -> None:
    """From the same float weight, codes, scales and zero points are those that torchao stored."""
    weights = load_file(sample.weights)
    hqq = "hqq" in sample.id
    for parameter, layout in layouts(sample).items():
        config = IntxWeightOnlyConfig(
            layout.target_dtype,
            PerGroup(layout.block_size[1]),
            MappingType.ASYMMETRIC if "asym" in sample.id else MappingType.SYMMETRIC,
            DType.parse(layout.scale.dtype),
            intx_choose_qparams_algorithm=IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
            if hqq
            else IntxChooseQParamsAlgorithm.AFFINE,
        )
        built = builder_of(config).build(config, weights[parameter])
        assert torch.equal(built.qdata, layout.qdata)
        assert torch.equal(built.scale, layout.scale)
        assert built.zero_point is None or torch.equal(built.zero_point, layout.zero_point)
        assert built.zero_point is not None or not layout.zero_point.any()
