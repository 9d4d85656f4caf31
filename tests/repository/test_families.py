"""The shared machinery knows no family: a new one needs no edit in it."""

import inspect
import re

import pytest

from qconfig.configs import choices
from qconfig.tensors.classes import tensor_class_of
from qconfig.versioning import Kind, Layout, info_of, plain_fields, registry
from tests.repository.sources import modules

ROOMS = ("versioning", "codec", "rules", "engine", "checkpoints")
MODULES = [name for name in modules() if name.split(".")[1:2] in [[room] for room in ROOMS]]

MAPS = {"FqnToConfig", "Rule", "Precedence"}
"""What gives configs to names is no family."""


def names_of_families() -> set[str]:
    """Return the names of classes that belong to families, and of their incidental fields."""
    entries = [entry for entry in registry.entries() if entry.kind is not Kind.VALUE]
    classes = {entry.name for entry in entries}
    enums = {name for name, value in vars(choices).items() if inspect.isclass(value)}
    current = [entry.cls for entry in registry.entries() if registry.is_current(entry)]
    layouts = [cls for cls in current if issubclass(cls, Layout)]
    tensors = {tensor_class_of(cls).__name__ for cls in layouts}
    fields = {f.name for cls in current for f in plain_fields(cls) if info_of(f).incidental}
    return (classes | enums | tensors | fields) - MAPS - {"StrEnum"}


@pytest.mark.parametrize("name", MODULES)
def test_no_family_is_named(name):
    """Neither code nor documentation of these rooms has the name of a config, layout or tensor."""
    words = set(re.findall(r"\w+", modules()[name].read_text(encoding="utf-8")))
    assert not words & names_of_families()
