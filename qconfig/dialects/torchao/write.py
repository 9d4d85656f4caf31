"""torchao's JSON form out: what `torchao.core.config.config_from_dict` of 0.18 reads."""

from collections.abc import Mapping
from typing import Any

import attrs

from qconfig.dialects.torchao.forms import FIELD_ALIASES, FORMS
from qconfig.dialects.torchao.leaves import is_leaf, leaf
from qconfig.dialects.torchao.words import SAID_AS, UNREAD, in_torchaos_words
from qconfig.errors import MigrationError, QconfigError, json_pointer
from qconfig.versioning import Config, registry


def to_envelope(config: Config) -> dict[str, Any]:
    """Return a config as torchao 0.18 writes it.

    Args:
        config: a registered config of any version; it is brought to torchao's first. An
            Int8DynamicActivationInt4WeightConfig, which torchao 0.18 cannot read, is written as the
            Int8DynamicActivationIntxWeightConfig that builds the same.

    Raises:
        MigrationError: torchao has no such config, cannot read it again, or has no words for what
            it says.
    """
    name = registry.entry_of(type(config)).name
    if name in SAID_AS:
        return to_envelope(SAID_AS[name](registry.convert(config)))
    if name in UNREAD:
        raise MigrationError(
            "torchao 0.18 cannot read this config again: it finds no class of that name",
            found=name,
            hint="quantize the module itself, with torchao's function for it",
        )
    forms = FORMS.get(name)
    if forms is None:
        raise MigrationError(
            "torchao has no such config", found=name, expected="one of " + ", ".join(FORMS)
        )
    form = forms[-1]
    # By way of the present, because only there each thing is said in one way.
    value = registry.convert(registry.convert(config), form.version)
    said = in_torchaos_words(name, value)
    data = {field: _encoded(inner, field) for field, inner in said.items()}
    for old, new in FIELD_ALIASES.get(name, {}).items():
        data[old] = _encoded(getattr(value, new), new)
    return {"_type": name, "_version": form.wire[-1], "_data": data}


def _encoded(value: Any, pointer: str) -> Any:
    if is_leaf(value):
        return leaf(value)
    if isinstance(value, tuple):
        return [_encoded(item, f"{pointer}/{i}") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {k: _encoded(item, pointer + json_pointer(k)) for k, item in value.items()}
    return _encoded_class(value, pointer)


def _encoded_class(value: Any, pointer: str) -> dict[str, Any]:
    if isinstance(value, Config):
        try:
            return to_envelope(value)
        except QconfigError as error:
            raise error.at(pointer_prefix=f"/{pointer}") from None
    if not registry.has(type(value)):
        raise MigrationError("torchao's JSON cannot hold this", pointer=f"/{pointer}", found=value)
    data = {
        f.name: _encoded(getattr(value, f.name), f"{pointer}/{f.name}")
        for f in attrs.fields(type(value))
    }
    return {"_type": registry.entry_of(type(value)).name, "_version": 1, "_data": data}
