"""`Calibration`: what was observed of a model's layers, in memory and as a directory.

The directory holds `calibration.json`, the document of a `CalibrationRecord`, and
`calibration.safetensors` with a tensor `<layer>.<field>` for each tensor of each layer that saw
data. Reading is strict: both files must say the same.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from attrs import field, frozen

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec import strict_json
from qconfig.codec.converter import unstructure
from qconfig.codec.documents import load_document, parse_config_document
from qconfig.codec.dtypes import DType
from qconfig.codec.new_directory import new_directory
from qconfig.codec.new_files import write_file
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.calibration import CalibratedLayer, CalibrationConfig, CalibrationRecord
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerAxis
from qconfig.errors import (
    CheckpointError,
    DocumentError,
    QconfigError,
    StorageError,
    nearest,
    raise_problems,
)

if TYPE_CHECKING:
    import torch

RECORD_FILE = "calibration.json"
TENSOR_FILE = "calibration.safetensors"
TENSORS = (
    "act_scale",
    "act_zero_point",
    "output_scale",
    "output_zero_point",
    "act_min",
    "act_max",
    "act_absmax",
    "act_absmean",
    "act_sample",
)
"""The tensors of a LayerCalibration, in the order in which they are stored."""


@frozen(eq=False)
class Calibration:
    """What `calibrate` observed: a record without tensors, and the statistics of each layer.

    Args:
        record: how it was made and of which layers.
        values: the statistics of the layers that saw data, by module name.
    """

    record: CalibrationRecord
    values: Mapping[str, LayerCalibration] = field(repr=False)

    @property
    def config(self) -> CalibrationConfig:
        """How the layers were observed."""
        config: Any = self.record.config
        found: CalibrationConfig = config
        return found

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that saw data."""
        return tuple(name for name, layer in self.record.layers.items() if layer.rows)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Names of the layers that were to be observed and saw no data."""
        return tuple(name for name, layer in self.record.layers.items() if not layer.rows)

    def layer(self, name: str) -> LayerCalibration | None:
        """Return what was observed of a layer, or None if it saw no data or was not observed.

        Args:
            name: the module's name; "" for the model itself.
        """
        return self.values.get(name)

    def __str__(self) -> str:
        """Return in one line how many layers saw data."""
        seen, unseen = len(self.layers), len(self.unseen)
        return f"{seen} of {seen + unseen} layers calibrated ({self.config.observer})"

    def save(self, path: Path | str) -> None:
        """Write a new directory, whole or not at all.

        Args:
            path: the directory to make; there must be none, or an empty one.

        Raises:
            UsageError: the directory exists.
            StorageError: the file system refused.
        """
        tensors = {
            _key(name, part): LazyTensor.of(value.contiguous())
            for name, layer in self.values.items()
            for part in TENSORS
            if (value := getattr(layer, part)) is not None
        }
        with new_directory(path) as work:
            write_safetensors(work / TENSOR_FILE, tensors, {"format": "pt"})
            write_file(work / RECORD_FILE, strict_json.dumps(unstructure(self.record)).encode())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the calibration that `save` wrote, bit for bit.

        Raises:
            DocumentError: the record is wrong, each problem with its JSON pointer.
            CheckpointError: record and tensors do not fit together.
            ContainerError: the tensor file breaks its format.
            StorageError: a file is missing or cannot be read.
        """
        directory = Path(path)
        record = _read_record(directory / RECORD_FILE)
        file = directory / TENSOR_FILE
        stored = lazy_tensors(read_header(file))
        expected = {
            _key(name, part): (name, part)
            for name, layer in record.layers.items()
            if layer.rows
            for part in _parts(record)
        }
        problems: list[QconfigError] = [
            CheckpointError("the record asks for a tensor that is not stored", fqn=name, file=file)
            for name in expected
            if name not in stored
        ]
        problems += [
            CheckpointError(
                "a tensor that the record does not ask for",
                fqn=name,
                file=file,
                hint=nearest(name, expected),
            )
            for name in stored
            if name not in expected
        ]
        raise_problems(problems)
        loaded: dict[str, dict[str, torch.Tensor]] = {}
        for key, (name, part) in expected.items():
            loaded.setdefault(name, {})[part] = stored[key].load()
        values = {}
        for name, tensors in loaded.items():
            try:
                values[name] = _layer(record, name, tensors)
            except QconfigError as error:
                problems.append(error.at(file=file, fqn=name))
        raise_problems(problems)
        return cls(record, values)


def _key(layer: str, part: str) -> str:
    return f"{layer}.{part}" if layer else part


def _read_record(path: Path) -> CalibrationRecord:
    try:
        record = parse_config_document(load_document(path))
    except StorageError as error:
        error.hint = error.hint or "a calibration is a directory that Calibration.save made"
        raise error.at(file=path) from None
    except QconfigError as error:
        raise error.at(file=path) from None
    if not isinstance(record, CalibrationRecord):
        raise DocumentError(
            "not the record of a calibration", file=path, found=type(record).__name__
        )
    return record


def _parts(record: CalibrationRecord) -> tuple[str, ...]:
    """Return the tensors that each layer with data has."""
    config: Any = record.config
    left_out = set()
    if config.mapping_type is not MappingType.ASYMMETRIC:
        left_out.add("act_zero_point")
    if config.output_granularity is None:
        left_out |= {"output_scale", "output_zero_point"}
    elif config.output_mapping_type is not MappingType.ASYMMETRIC:
        left_out.add("output_zero_point")
    if not config.sample_rows:
        left_out.add("act_sample")
    return tuple(part for part in TENSORS if part not in left_out)


def _layer(
    record: CalibrationRecord, name: str, tensors: "dict[str, torch.Tensor]"
) -> LayerCalibration:
    config: Any = record.config
    layer = record.layers[name]
    for part, value in tensors.items():
        expected = _shape(config, layer, part)
        if tuple(value.shape) != expected:
            raise CheckpointError(
                f"{part} does not fit the record",
                found=tuple(value.shape),
                expected=f"shape {expected}",
            )
    return LayerCalibration(
        **tensors,
        quant_dtype=DType(config.quant_dtype),
        reduce_range=config.reduce_range,
        rows=layer.rows,
    )


def _shape(config: CalibrationConfig, layer: CalibratedLayer, part: str) -> tuple[int, ...]:
    if part == "act_sample":
        return min(layer.rows, config.sample_rows), layer.in_features
    if part.startswith("output_"):
        per_channel = isinstance(config.output_granularity, PerAxis)
        return (layer.out_features,) if per_channel else ()
    if part in ("act_scale", "act_zero_point") and not isinstance(config.granularity, PerAxis):
        return ()
    return (layer.in_features,)
