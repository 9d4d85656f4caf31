"""Building a quantized tensor some rows at a time, where rows do not depend on each other."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from qconfig.builders.base import Target, builder_of
from qconfig.builders.calibrated import build_calibrated
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.tensor_parts import rows_at_once
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.errors import QconfigError
from qconfig.versioning import Config, Layout


@runtime_checkable
class BuildsByRows(Protocol):
    """A builder that knows which rows of a weight depend on each other.

    Rows are entries of dimension 0. What it builds of some rows is, bit for bit, a part of what it
    builds of all: in each field one dimension has fewer entries, or it is the same.
    """

    def rows_together(self, config: Any, target: Target) -> int:
        """Return how many rows go together; 0 or all of them if none can be built apart. Pure.

        Args:
            config: the config.
            target: the weight; the config fits it.
        """


def rows_together(config: Config, weight: LazyTensor) -> int:
    """Return how many rows of a weight go together, or 0 where it is built as a whole.

    That is where its rows depend on each other, and where it is small.
    """
    builder = builder_of(config)
    if not isinstance(builder, BuildsByRows) or not weight.shape:
        return 0
    target = Target("", weight.shape, weight.dtype, named=True)
    together = builder.rows_together(config, target)
    if not together or weight.shape[0] % together:
        return 0
    row = nbytes(weight) // max(1, weight.shape[0])
    return together if rows_at_once(row, together) < weight.shape[0] else 0


def build_by_rows(
    config: Config,
    weight: LazyTensor,
    calibration: LayerCalibration | None,
    *,
    together: int,
) -> Iterator[Layout]:
    """Yield the layouts of some rows of a weight at a time, in order.

    Args:
        config: the config.
        weight: the float weight; it is read as it is needed.
        calibration: of its layer, or None.
        together: how many rows go together.

    Raises:
        QconfigError: whatever the builder raises, for the weight as a whole.
    """
    from qconfig.tensors.one_thread import one_thread
    from qconfig.tensors.slab_size import ample_buffers

    for part in weight.in_parts(together):
        try:
            with one_thread(), ample_buffers():
                built: Any = build_calibrated(config, part, calibration)
        except QconfigError:
            build_calibrated(config, weight.load(), calibration)  # names places in the whole
            raise
        del part
        layout: Layout = built.to_layout()
        del built
        yield layout
