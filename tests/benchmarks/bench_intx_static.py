"""Int4 weights with static int8 activations, against torchao 0.18's dynamic ones.

Run `python -m tests.benchmarks.bench_intx_static [--quick]`. It prints median milliseconds for a
4096 x 4096 weight, all columns measured in turn. torchao 0.18 has no static scales for intx
weights; its column is the same weight with activations quantized token by token. `x` is torchao's
time divided by ours. Rows multiply integers, with all zero points to correct; groups have none.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs import Int8StaticActivationIntxWeightConfig, PerAxis, PerGroup
from qconfig.configs.choices import MappingType
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096
ROWS = (1, 16, 64, 256)
QUICK_ROWS = (1, 64)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer batches and repeats")
    quick = parser.parse_args().quick
    logging.getLogger("torchao").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    row("dtype", "M", "groups", "rows", "torchao", "float weight", "x groups", "x rows")
    row(*["---"] * 8)
    for dtype in (torch.bfloat16, torch.float32):
        table(dtype, quick=quick)


def table(dtype: torch.dtype, *, quick: bool) -> None:
    """Print one row for each batch size."""
    weight = torch.randn(SIZE, SIZE, dtype=dtype) * 0.02
    groups = static(weight, weight_granularity=PerGroup(32))
    rows = static(
        weight,
        weight_granularity=PerAxis(0),
        weight_mapping_type=MappingType.ASYMMETRIC,
        act_quant_zero_point=torch.tensor(3),
    )
    theirs, plain = torchao_tensor(weight), groups.dequantize()
    for batch in QUICK_ROWS if quick else ROWS:
        x = torch.randn(batch, SIZE, dtype=dtype)
        calls: dict[str, Callable[[], Any]] = {
            "groups": partial(linear, x, groups),
            "rows": partial(linear, x, rows),
            "torchao": partial(linear, x, theirs),
            "float weight": partial(linear, x, plain),
        }
        with torch.inference_mode():
            times = side_by_side(calls, 3 if quick else 7)
        ratios = (times["torchao"] / times[name] for name in ("groups", "rows"))
        row(str(dtype)[6:], batch, *times.values(), *ratios)


def static(weight: torch.Tensor, **fields: Any) -> torch.Tensor:
    """Return the weight in int4 codes with a static scale for normal activations."""
    config = Int8StaticActivationIntxWeightConfig(
        weight_dtype=DType.INT4, act_quant_scale=torch.tensor(0.04), **fields
    )
    return IntxStaticBuilder().build(config, weight)


def torchao_tensor(weight: torch.Tensor) -> torch.Tensor:
    """Return torchao's tensor of the weight in int4 groups of 32, activations dynamic."""
    from torchao.quantization import IntxUnpackedToInt8Tensor

    tensor: torch.Tensor = IntxUnpackedToInt8Tensor.from_hp(
        weight, (1, 32), torch.int4, activation_quantization="int8_asym_per_token"
    )
    return tensor


if __name__ == "__main__":
    main()
