"""Filling a registry by import: every module of a package, every installed plug-in of a group."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from threading import RLock

from qconfig.errors import QconfigError, RegistrationError

_loaders: dict[str, Callable[[], None]] = {}
_imported: set[str] = set()
_lock = RLock()


def on_first_need(what: str, loader: Callable[[], None]) -> None:
    """Have `loader` called once, when `load_what_is_needed` is first asked for `what`."""
    _loaders[what] = loader


def load_what_is_needed(what: str) -> None:
    """Call the loader of `what`, unless it was called before or there is none."""
    with _lock:  # other threads wait until all is there
        loader = _loaders.pop(what, None)
        if loader is not None:
            loader()


def import_modules(package: str) -> None:
    """Import every module of a package, the first time; a new one needs to be listed nowhere."""
    if package in _imported:
        return
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    _imported.add(package)


def load_plugins(group: str) -> None:
    """Load every installed entry point of a group.

    Raises:
        RegistrationError: a plug-in cannot be imported, or registers something wrongly.
    """
    for plugin in entry_points(group=group):
        _load_plugin(plugin)


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
