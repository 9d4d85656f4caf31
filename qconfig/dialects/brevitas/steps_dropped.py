"""Steps that leave out what needs no place: old sentinels, buffers, handlers of exports."""

from collections.abc import Mapping

from qconfig.dialects.brevitas.fields import number_of
from qconfig.dialects.brevitas.quantizer_keys import Kind, QuantizerKey
from qconfig.dialects.brevitas.selection import selects
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.errors import CheckpointError, QconfigError

_NO_STATE: Mapping[Kind, str] = {
    Kind.SENTINEL: "a constant 0 that releases before 0.8 saved",
    Kind.FLAG: "whether the module was in training, which old TorchScript modules saved",
}
_HANDLER = "what exports compute from the rest; widths were compared with the config"
_BUFFER = "statistics that were collected; the value that came of them stands beside them"
_NO_VALUE = "statistics that were collected, with no value of their own yet"
_VALUES: Mapping[Kind, Kind] = {
    Kind.THRESHOLD_BUFFER: Kind.THRESHOLD,
    Kind.ZERO_POINT_BUFFER: Kind.ZERO_POINT,
}
_BITS = "bit_width"


def without_dropped(stage: Stage, settings: Settings) -> Stage:
    """Leave out what the caller said may be left out."""
    gone = [name for name in stage.state if selects(settings.dropped, name)]
    changes = [Change(Done.DROPPED, (name,), None, "as was asked for") for name in gone]
    return stage.without(gone).noting(changes)


def without_constants(stage: Stage, settings: Settings) -> Stage:
    """Leave out keys that say nothing about the model, present or not."""
    gone = [key for key in stage.quantizer_keys() if key.kind in _NO_STATE]
    changes = [Change(Done.DROPPED, (k.name,), None, _NO_STATE[k.kind]) for k in gone]
    return stage.without(k.name for k in gone).noting(changes)


def without_handlers(stage: Stage, settings: Settings) -> Stage:
    """Leave out what was computed for an export, after it was compared with the config."""
    gone = [key for key in stage.quantizer_keys() if key.kind is Kind.HANDLER]
    changes = [Change(Done.DROPPED, (k.name,), None, _HANDLER) for k in gone]
    problems = [p for key in gone for p in _contradictions(stage, key, settings)]
    return stage.without(k.name for k in gone).noting(changes, problems)


def without_buffers(stage: Stage, settings: Settings) -> Stage:
    """Leave out statistics beside the value that came of them; else they are that value."""
    changes = []
    for key in stage.quantizer_keys():
        if key.kind not in _VALUES:
            continue
        values = [k for k in stage.quantizer_keys() if k.kind is _VALUES[key.kind]]
        if any(value.quantizer == key.quantizer for value in values):
            stage = stage.without([key.name])
            changes.append(Change(Done.DROPPED, (key.name,), None, _BUFFER))
            continue
        value = key.name.removesuffix("buffer") + "value"
        stage = stage.replaced(key.name, value, stage.state[key.name])
        changes.append(Change(Done.RENAMED, (key.name,), value, _NO_VALUE))
    return stage.noting(changes)


def _contradictions(stage: Stage, key: QuantizerKey, settings: Settings) -> list[QconfigError]:
    config = settings.config_of(key.layer, key.role)
    said = getattr(config, key.part, None) if key.part in _COMPARED else None
    tensor = stage.state[key.name]
    is_number = tensor.dtype.is_float and tensor.shape == ()
    if said is None or not is_number:
        return []
    if key.part == _BITS and getattr(config, "learned_bit_width", False):
        return []
    found = number_of(tensor)
    return [] if found == said else [differs(key, found, said, key.part)]


_COMPARED = frozenset({_BITS, "exponent_bit_width", "mantissa_bit_width", "exponent_bias"})


def differs(key: QuantizerKey, found: float, said: float, field: str) -> CheckpointError:
    """Return the error for a file that says another number than the config."""
    return CheckpointError(
        f"the file has another {field} than the config",
        fqn=key.name,
        found=f"{found:g}",
        expected=f"{said:g}, as the config says for {key.quantizer}",
        hint="quantize with the config that the checkpoint was trained with",
    )
