"""torchao 0.18, imported without its notes about kernels it was not built with."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_torchao() -> Iterator[None]:
    """Import and run torchao without its warnings."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def torchao_int8() -> tuple[Any, Any]:
    """Return torchao's Int8Tensor and its granularity module."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization import Int8Tensor, granularity
    return Int8Tensor, granularity
