"""Filling a registry by import: every module of a package registers what it defines."""

from importlib import import_module
from pkgutil import iter_modules


def import_modules(package: str) -> None:
    """Import every module of a package; a new one needs to be listed nowhere."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
