"""Fill the registry: our own classes and steps, then those of installed plug-ins.

Plug-ins are entry points of the group `qconfig`; loading one must register its classes. Only what
is installed is loaded; no name that a document holds ever gets here.
"""

from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules


def load() -> None:
    """Import every module that registers configs, layouts, values or steps."""
    # Says how a tensor in a document looks, which schemas ask for.
    import_module("qconfig.codec.tensor_documents")
    for package in ("qconfig.configs", "qconfig.layouts", "qconfig.migrations"):
        for module in iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for plugin in entry_points(group="qconfig"):
        plugin.load()
