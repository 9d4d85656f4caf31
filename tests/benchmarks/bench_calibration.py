"""What calibrating costs beside running the model, and AWQ and SmoothQuant against torchao 0.18.

Run `python -m tests.benchmarks.bench_calibration`. The first table is of a linear of 2048 x 2048
that sees 4 batches of 512 rows: milliseconds of the bare forward, and with each observer. The
second is of one weight of that size and a sample of 512 rows: milliseconds to build it.
"""

import copy
import warnings
from functools import partial
from typing import Any

import torch
from torch import nn

from qconfig import (
    AWQConfig,
    CalibrationConfig,
    Int8WeightOnlyConfig,
    Observer,
    PerAxis,
    PerTensor,
    SmoothQuantConfig,
    calibrate,
)
from qconfig.builders.base import builder_of
from tests.benchmarks.timing import row, side_by_side

SIZE, ROWS, BATCHES = 2048, 512, 4
DTYPE = torch.bfloat16


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(SIZE, SIZE, dtype=DTYPE))
    batches = list(torch.randn(BATCHES, ROWS, SIZE).to(DTYPE))
    _observers(model, batches)
    _schemes(model, batches[:1])


def _observers(model: nn.Module, batches: list[torch.Tensor]) -> None:
    row("observer", "granularity", "forward", "calibrate")
    row(*["---"] * 4)
    for granularity in (PerTensor(), PerAxis(-1)):
        for observer in Observer:
            config = CalibrationConfig(observer=observer, granularity=granularity)
            times = side_by_side(
                {
                    "forward": partial(_forward, model, batches),
                    "calibrate": partial(calibrate, model, batches, config),
                },
                3,
            )
            name = type(granularity).__name__
            row(observer.value, name, times["forward"], times["calibrate"])


def _schemes(model: Any, batches: list[torch.Tensor]) -> None:
    from torchao.prototype.awq import AWQConfig as TorchaoAWQ
    from torchao.prototype.smoothquant import SmoothQuantConfig as TorchaoSmoothQuant
    from torchao.quantization import Int8WeightOnlyConfig as TorchaoInt8
    from torchao.quantization import quantize_ as torchao_quantize_

    def torchaos(prepared: nn.Module, config: Any) -> None:
        torchao_quantize_(copy.deepcopy(prepared), config)

    layer = calibrate(model, batches).layer("0")
    row("scheme", "torchao", "qconfig", "torchao / qconfig")
    row(*["---"] * 4)
    pairs = ((AWQConfig, TorchaoAWQ), (SmoothQuantConfig, TorchaoSmoothQuant))
    for mine, theirs in pairs:
        config = mine(Int8WeightOnlyConfig())
        builder: Any = builder_of(config)
        prepared = copy.deepcopy(model)
        torchao_quantize_(prepared, theirs(TorchaoInt8(version=2), step="prepare"))
        _forward(prepared, batches)
        convert = theirs(TorchaoInt8(version=2), step="convert")
        times = side_by_side(
            {
                "torchao": partial(torchaos, prepared, convert),
                "qconfig": partial(builder.build, config, model[0].weight, layer),
            },
            3,
        )
        ratio = times["torchao"] / times["qconfig"]
        row(mine.__name__, times["torchao"], times["qconfig"], ratio)


def _forward(model: nn.Module, batches: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for x in batches:
            model(x)


if __name__ == "__main__":
    main()
