"""How activations are observed, and the record of a calibration."""

from typing import Literal

from attrs import frozen

from qconfig.configs.choices import MappingType, Observer
from qconfig.configs.granularity import PerAxis, PerTensor
from qconfig.configs.supported import choice_of, dtype_name
from qconfig.errors import FieldError, QconfigError, raise_problems
from qconfig.versioning import Config, attribute, register_config, register_value

_LARGEST_SIZE = 2**48 - 1


@register_config("CalibrationConfig", 1)
@frozen
class CalibrationConfig(Config):
    """What `calibrate` observes of every layer, and how ranges become scales."""

    observer: Observer = attribute(
        "Which range of the values counts: all of it (MIN_MAX), all but the outermost "
        "(PERCENTILE), the one with the least squared error (MSE), or the running mean of the "
        "ranges of the calls (RUNNING).",
        default=Observer.MIN_MAX,
        converter=choice_of(Observer),
    )
    percentile: float = attribute(
        "For PERCENTILE: percent of the values that lie below the upper end; as many lie above "
        "the lower end.",
        default=99.99,
        minimum=50.0,
        maximum=100.0,
    )
    momentum: float = attribute(
        "For RUNNING: weight of the range so far against that of the newest call.",
        default=0.9,
        minimum=0.0,
        maximum=1.0,
    )
    granularity: PerTensor | PerAxis = attribute(
        "Scale of the inputs: PerTensor, or PerAxis of axis -1 for one scale an input channel.",
        factory=PerTensor,
    )
    mapping_type: MappingType = attribute(
        "How inputs map to codes.", default=MappingType.SYMMETRIC, converter=choice_of(MappingType)
    )
    output_granularity: PerTensor | PerAxis | None = attribute(
        "Scale of the outputs: PerTensor, PerAxis of axis -1 for one scale an output channel, or "
        "null to observe no outputs.",
        default=None,
    )
    output_mapping_type: MappingType = attribute(
        "How outputs map to codes.", default=MappingType.SYMMETRIC, converter=choice_of(MappingType)
    )
    quant_dtype: Literal["int8", "float8_e4m3fn", "float8_e5m2"] = attribute(
        "Codes that the scales are for.", default="int8", converter=dtype_name
    )
    reduce_range: bool = attribute("Whether int8 codes use 7 of the 8 bits.", default=False)
    sample_rows: int = attribute(
        "Rows of the input that are kept of each layer for AWQ's search, drawn evenly from all "
        "that pass; 0 keeps none.",
        default=512,
        minimum=0,
        maximum=2**20,
    )
    modules: tuple[str, ...] = attribute(
        "Classes of the modules to observe, subclasses included.", default=("Linear",), min_length=1
    )
    layers: tuple[str, ...] = attribute(
        "Names of the modules to observe; empty means all of those classes.", default=()
    )

    def __attrs_post_init__(self) -> None:
        """Check that axes are the last and that float8 codes are symmetric.

        Raises:
            FieldError: another axis, or a mapping or range that float8 does not have.
        """
        problems: list[QconfigError] = [
            FieldError(
                "activations have scales per tensor or per channel",
                pointer=f"/{name}",
                found=value,
                expected="PerTensor or PerAxis of axis -1",
            )
            for name in ("granularity", "output_granularity")
            if (value := getattr(self, name)) is not None
            and not isinstance(value, PerTensor)
            and value.axis != -1
        ]
        if self.quant_dtype != "int8":
            problems += [
                FieldError(
                    f"{self.quant_dtype} has symmetric codes only",
                    pointer=f"/{name}",
                    found=value,
                    expected="SYMMETRIC",
                )
                for name in ("mapping_type", "output_mapping_type")
                if (value := getattr(self, name)) is not MappingType.SYMMETRIC
            ]
            if self.reduce_range:
                problems.append(
                    FieldError("only int8 has a reduced range", pointer="/reduce_range")
                )
        raise_problems(problems)


@register_value("CalibratedLayer", tagged=False)
@frozen
class CalibratedLayer:
    """What a calibration saw of one layer; its tensors lie beside the record."""

    in_features: int = attribute("Input channels, K.", minimum=0, maximum=_LARGEST_SIZE)
    out_features: int = attribute("Output channels, N.", minimum=0, maximum=_LARGEST_SIZE)
    calls: int = attribute("Calls that had at least one row.", default=0, minimum=0)
    rows: int = attribute("Rows of K values that passed; 0 means no data.", default=0, minimum=0)


@register_config("CalibrationRecord", 1)
@frozen
class CalibrationRecord(Config):
    """The document of a calibration: how it was made, of which layers; tensors lie beside it."""

    config: Config = attribute("The CalibrationConfig.")
    layers: dict[str, CalibratedLayer] = attribute("Layers by module name.", factory=dict)

    def __attrs_post_init__(self) -> None:
        """Check the config.

        Raises:
            FieldError: it is not a CalibrationConfig.
        """
        if not isinstance(self.config, CalibrationConfig):
            raise FieldError(
                "not a CalibrationConfig", pointer="/config", found=type(self.config).__name__
            )
