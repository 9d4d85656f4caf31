"""What is built some rows at a time is what is built of the whole weight, bit for bit."""

from typing import Any

import pytest
import torch

from qconfig import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8DynamicActivationInt4WeightConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    FloatQuantConfig,
    GroupwiseFloatQuantConfig,
    GroupwiseIntQuantConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8StaticActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntQuantConfig,
    IntxWeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    UIntxWeightOnlyConfig,
)
from qconfig.builders.base import Target, builder_of, builders
from qconfig.builders.by_rows import BuildsByRows
from qconfig.checkpoints.contents import deferred
from qconfig.codec import tensor_parts
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import present_fields
from qconfig.codec.raw_memory import byte_view
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.choices import MappingType
from qconfig.configs.uintx import UIntxChooseQParamsAlgorithm
from qconfig.engine.calibrated import layer_by_rows
from qconfig.errors import BuildError
from qconfig.versioning import Config, Layout

SCALE = torch.tensor(0.02)
ZERO = torch.tensor(3, dtype=torch.int8)
SAMPLES: list[Config] = [
    Int8WeightOnlyConfig(),
    Int8WeightOnlyConfig(PerGroup(32)),
    Int8WeightOnlyConfig(PerTensor()),
    Int8WeightOnlyConfig(PerRow(0)),
    Int8DynamicActivationInt8WeightConfig(),
    Int8StaticActivationInt8WeightConfig(act_quant_scale=SCALE),
    Int4WeightOnlyConfig(64),
    Float8DynamicActivationInt4WeightConfig(),
    Float8WeightOnlyConfig(granularity=PerRow()),
    Float8WeightOnlyConfig(),
    Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    Float8StaticActivationFloat8WeightConfig(act_quant_scale=SCALE),
    IntxWeightOnlyConfig(),
    IntxWeightOnlyConfig(granularity=PerGroup(32), mapping_type=MappingType.ASYMMETRIC),
    Int8DynamicActivationIntxWeightConfig(),
    Int8DynamicActivationInt4WeightConfig(),
    Int8StaticActivationIntxWeightConfig(act_quant_scale=SCALE, act_quant_zero_point=ZERO),
    MXDynamicActivationMXWeightConfig(),
    NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
    NVFP4WeightOnlyConfig(),
    NVFP4DynamicActivationNVFP4WeightConfig(use_dynamic_per_tensor_scale=False),
    UIntxWeightOnlyConfig(),
    UIntxWeightOnlyConfig(uintx_choose_qparams_algorithm=UIntxChooseQParamsAlgorithm.MIN_MAX),
    UIntxWeightOnlyConfig(uintx_choose_qparams_algorithm=UIntxChooseQParamsAlgorithm.SYMMETRIC),
    IntQuantConfig(),
    IntQuantConfig(granularity=PerAxis(0)),
    FloatQuantConfig(granularity=PerAxis(0)),
    GroupwiseIntQuantConfig(),
    GroupwiseFloatQuantConfig(),
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have eleven rows of bfloat16, so that the last one has another size."""
    monkeypatch.setattr(tensor_parts, "PART_BYTES", 11 * 256 * 2)


def weight_of(kind: torch.dtype, *leading: int) -> torch.Tensor:
    """Return a weight with some outliers, ties and a row of zeros."""
    weight = torch.randn(*leading, 256, generator=torch.Generator().manual_seed(0)).to(kind)
    flat = weight.view(-1, 256)
    flat[3], flat[5, ::7], flat[-1] = 0, 3.0, 100.0
    return weight


def built(config: Config, weight: torch.Tensor, *, by_rows: bool) -> dict[str, bytes]:
    """Return the bytes of each field."""
    lazy = LazyTensor.of(weight)
    target = Target("m.weight", tuple(weight.shape), DType.parse(weight.dtype))
    expected = builder_of(config).layout(config, target)

    def build() -> Layout:
        assert not by_rows
        whole: Any = builder_of(config).build(config, weight)
        layout: Layout = whole.to_layout()
        return layout

    made = layer_by_rows(config, lazy, "m.weight", None) if by_rows else None
    layout = deferred(expected, build, made)
    return {
        name: b"".join(bytes(byte_view(part.contiguous())) for part in parts)
        for name in present_fields(layout)
        for parts in [list(getattr(layout, name).in_parts())]
    }


def goes_by_rows(config: Config, weight: torch.Tensor) -> bool:
    """Return whether a builder takes a few rows of a weight at a time."""
    return layer_by_rows(config, LazyTensor.of(weight), "m.weight", None) is not None


def test_all_builders_by_rows_are_tested() -> None:
    """A builder that says which rows go together has a sample that is built by rows."""
    claimed = {c for c, builder in builders().items() if isinstance(builder, BuildsByRows)}
    weight = weight_of(torch.bfloat16, 96)
    assert claimed == {type(c) for c in SAMPLES}
    # Whose scales are always those of whole tensors.
    whole = {Float8StaticActivationFloat8WeightConfig}
    assert claimed - whole == {type(c) for c in SAMPLES if goes_by_rows(c, weight)}


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("config", SAMPLES, ids=lambda c: type(c).__name__)
def test_rows_give_the_bytes_of_the_whole(config: Config, kind: torch.dtype) -> None:
    """Whatever the type of the weight."""
    weight = weight_of(kind, 96)
    by_rows = goes_by_rows(config, weight)
    assert built(config, weight, by_rows=by_rows) == built(config, weight, by_rows=False)


@pytest.mark.parametrize("rows", [12, 89])
@pytest.mark.parametrize("config", SAMPLES, ids=lambda c: type(c).__name__)
def test_a_last_part_may_be_one_row(config: Config, rows: int) -> None:
    """A part of one row is built as the same row of the whole is."""
    weight = weight_of(torch.bfloat16, rows)
    by_rows = goes_by_rows(config, weight)
    assert built(config, weight, by_rows=by_rows) == built(config, weight, by_rows=False)


def test_rows_of_a_tile_stay_together() -> None:
    """Tiles of 128 rows are not cut."""
    config = Float8DynamicActivationFloat8WeightConfig(
        granularity=[PerBlock([1, 128]), PerBlock([128, 128])]
    )
    weight = weight_of(torch.bfloat16, 384)
    assert goes_by_rows(config, weight)
    assert built(config, weight, by_rows=True) == built(config, weight, by_rows=False)


def test_experts_go_matrix_by_matrix() -> None:
    """Rows of stacked matrices are matrices."""
    weight = weight_of(torch.bfloat16, 5, 40)
    for config in (Int8WeightOnlyConfig(), Int4WeightOnlyConfig(64), NVFP4WeightOnlyConfig()):
        assert goes_by_rows(config, weight)
        assert built(config, weight, by_rows=True) == built(config, weight, by_rows=False)


def test_errors_name_places_in_the_whole_weight() -> None:
    """A NaN far down is found where it lies, and all of them are counted."""
    weight = weight_of(torch.bfloat16, 96)
    weight[50, 3] = weight[80, 1] = float("nan")
    with pytest.raises(BuildError, match=r"2 values .* the first at \[50, 3\]"):
        built(Int8WeightOnlyConfig(), weight, by_rows=True)
