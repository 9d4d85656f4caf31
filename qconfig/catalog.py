"""Fill the registry: our own classes and steps, then those of installed plug-ins.

Plug-ins are entry points of the group `qconfig`; loading one must register its classes. Only what
is installed is loaded; no name that a document holds ever gets here.
"""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from qconfig.errors import QconfigError, RegistrationError
from qconfig.versioning import registry
from qconfig.versioning.modules import import_modules


def load() -> None:
    """Import every module that registers configs, layouts, values or steps.

    Raises:
        RegistrationError: a plug-in cannot be imported, or registers something wrongly.
    """
    # Says how a tensor in a document looks, which schemas ask for.
    import_module("qconfig.codec.tensor_documents")
    for package in ("qconfig.configs", "qconfig.layouts", "qconfig.migrations"):
        import_modules(package)
    for plugin in entry_points(group="qconfig"):
        _load_plugin(plugin)
    registry.check_chains()


def _load_plugin(plugin: EntryPoint) -> None:
    source = f"plug-in {plugin.name} = {plugin.value}"
    try:
        plugin.load()
    except QconfigError as error:
        raise RegistrationError(f"{source}: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise RegistrationError(
            f"{source} cannot be loaded",
            found=f"{type(error).__name__}: {error}",
            hint="update or uninstall the package that declares it",
        ) from error
