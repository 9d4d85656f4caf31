"""What a state_dict shows of how it was quantized, held against the config."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qconfig.codec.first_rows import first_rows
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.quant_choices import LEARNED_SCALES, ScaleRestriction
from qconfig.dialects.brevitas.expectations import WEIGHT
from qconfig.dialects.brevitas.quantizer_keys import Kind, dotted
from qconfig.dialects.brevitas.stages import Settings, Stage
from qconfig.errors import CheckpointError, QconfigError

if TYPE_CHECKING:
    import torch

_ROWS, _ELEMENTS = 32, 2**18
_REPEATS = 8
"""Elements of a row for each value that it takes, for its values to be a grid."""

NO_CONFIG = "give the config that the model was quantized with, or drop its names"

_ANY_TYPE = frozenset({Kind.SENTINEL, Kind.FLAG, Kind.HANDLER, Kind.OTHER})
_WITHOUT_BITS = frozenset({Kind.SENTINEL, Kind.FLAG})


def with_floats(stage: Stage, settings: Settings) -> Stage:
    """Refuse what quantizers keep of scales, zero points and bits in another type than a float."""
    wrong = [
        key.name
        for key in stage.quantizer_keys()
        if key.kind not in _ANY_TYPE and not stage.state[key.name].dtype.is_float
    ]
    problems = [
        CheckpointError(
            "a tensor of a quantizer is of a wrong type",
            fqn=name,
            found=stage.state[name],
            expected="float16, bfloat16, float32 or float64",
        )
        for name in wrong
    ]
    return stage.without(wrong).noting(problems=problems)


def with_configs(stage: Stage, settings: Settings) -> Stage:
    """Say which quantizers have no config, without which nobody knows their bits."""
    problems: dict[str, QconfigError] = {}
    unknown = []
    for key in stage.quantizer_keys():
        if key.kind in _WITHOUT_BITS or settings.config_of(key.layer, key.role) is not None:
            continue
        if key.kind is Kind.HANDLER and key.layer in settings.reached:
            continue  # quantizers that are off have one, too
        unknown.append(key.name)
        problems.setdefault(
            key.quantizer,
            CheckpointError(
                "no config says how a quantizer of the file quantizes",
                fqn=key.quantizer,
                found=key.name,
                expected="a config for it: Brevitas saves neither bit widths nor formats",
                hint=NO_CONFIG,
            ),
        )
    return stage.without(unknown).noting(problems=problems.values())


def with_grids(stage: Stage, settings: Settings) -> Stage:
    """Refuse weights that lie on a grid of fewer bits than the config has.

    Brevitas saves weights before they are quantized; a weight that takes no more values than so
    many bits have was quantized when it was saved, and with these bits.
    """
    problems = []
    for layer, roles in settings.reached.items():
        name = dotted(layer, "weight")
        config: Any = settings.config_of(layer, WEIGHT)
        weight = stage.state.get(name)
        if WEIGHT not in roles or weight is None or not hasattr(config, "bit_width"):
            continue
        bits = grid_bits(weight)
        if bits is not None and bits < config.bit_width and not config.learned_bit_width:
            problems.append(
                CheckpointError(
                    "the weight has fewer bits than the config",
                    fqn=name,
                    found=f"values on a grid of {bits} bits",
                    expected=f"{config.bit_width} bits, as the config says",
                    hint="quantize with the config that the checkpoint was trained with",
                )
            )
    return stage.noting(problems=problems)


def with_unsaid(stage: Stage, settings: Settings) -> Stage:
    """Say what no file of Brevitas can show, and the config therefore decides."""
    taken: dict[str, list[str]] = {}
    releases: dict[str, None] = {}
    for layer, roles in settings.reached.items():
        for role in roles:
            config: Any = settings.config_of(layer, role)
            if config is not None:
                releases |= dict.fromkeys(_of_releases(config))
                taken.setdefault(_described(config), []).append(dotted(layer, role))
    return stage.noting(
        ambiguities=[
            f"{_some(names)}: the file does not say how values become codes; taken from the "
            f"config: {described}"
            for described, names in taken.items()
        ]
    ).noting(ambiguities=releases)


def grid_bits(weight: LazyTensor) -> int | None:
    """Return the bits of the integers that rows are multiples of; None where they are of none."""
    if len(weight.shape) < 2 or not all(weight.shape) or not weight.dtype.is_float:
        return None
    per_row = 1
    for n in weight.shape[1:]:
        per_row *= n
    rows = first_rows(weight, max(1, min(_ROWS, _ELEMENTS // per_row))).flatten(1)
    bits = [_row_bits(row) for row in rows if bool((row != 0).any())]
    known = [b for b in bits if b is not None]
    return max(known) if known and len(known) == len(bits) else None


def _row_bits(row: "torch.Tensor") -> int | None:
    import torch

    precision = torch.finfo(row.dtype).eps
    values = torch.unique(row.double())
    if len(values) < 2 or len(values) * _REPEATS > len(row):
        return None
    step = values.diff().min()
    codes = values / step
    off = (codes - codes.round()).abs()
    if not bool((off <= codes.abs() * precision * 4 + 1e-6).all()):
        return None
    largest = int(codes.abs().max().round())
    return max(1, largest.bit_length() + int(bool((codes < 0).any())) - _is_power(codes))


def _is_power(codes: "torch.Tensor") -> int:
    """Return 1 where the one code of the largest magnitude is -2**n, which n + 1 bits hold."""
    low, high = int(codes.min().round()), int(codes.max().round())
    return int(low < 0 and -low > high and (-low & (-low - 1)) == 0)


def _described(config: Any) -> str:
    return ", ".join(_parts(config))


def _of_releases(config: Any) -> Iterator[str]:
    """Yield where releases took the same state for other scales."""
    restriction = config.scale_restriction
    if restriction is ScaleRestriction.LOG_FP and config.scale_kind in LEARNED_SCALES:
        yield _LOGARITHMS
    if restriction is ScaleRestriction.POWER_OF_TWO and hasattr(config, "group_size"):
        yield _ROUNDED_UP


def _parts(config: Any) -> Iterator[str]:
    yield type(config).__name__
    for name in _SAID:
        value = getattr(config, name, None)
        if value is not None and not (name == "bit_width" and config.learned_bit_width):
            yield f"{name} {value}"


_LOGARITHMS = (
    "0.11 subtracted logarithms where all other releases divide: where it wrote the file, scales "
    "may differ in their last bits"
)
_ROUNDED_UP = (
    "0.11 rounded the scales of MX formats up, and later releases down: power_of_two_rounding CEIL "
    "is for its files, and FLOOR for others"
)
_SAID = (
    "bit_width",
    "exponent_bit_width",
    "mantissa_bit_width",
    "signed",
    "narrow_range",
    "rounding",
    "scale_restriction",
    "power_of_two_rounding",
    "group_size",
    "group_dim",
)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
