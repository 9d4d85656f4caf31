"""Fill the registry: our own classes and steps, then those of installed plug-ins.

Plug-ins are entry points of the group `qconfig`; loading one must register its classes. Tensor
classes, which need torch, may go under a group of their own, `qconfig.tensors`, which is loaded
when the first is asked for. Only what is installed is loaded; no name from a document gets here.
"""

from importlib import import_module

from qconfig.versioning import registry
from qconfig.versioning.modules import import_modules, load_plugins, on_first_need


def prepare() -> None:
    """Have the registry and the table of dialects filled when they are first asked."""
    registry.on_first_use(load)
    on_first_need("dialects", load_dialects)


def load_dialects() -> None:
    """Import the modules that add a dialect of checkpoints."""
    import_module("qconfig.dialects.torchao.checkpoints")
    import_module("qconfig.dialects.brevitas.checkpoints")


def load() -> None:
    """Import every module that registers configs, layouts, values or steps.

    Raises:
        RegistrationError: a plug-in cannot be imported, or registers something wrongly.
    """
    # Says how a tensor in a document looks, which schemas ask for.
    import_module("qconfig.codec.tensor_documents")
    for package in ("qconfig.configs", "qconfig.layouts", "qconfig.migrations"):
        import_modules(package)
    load_plugins("qconfig")
    registry.check_chains()
