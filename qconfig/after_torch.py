"""Import the tensor classes as soon as torch is there, and not before.

`torch.load(weights_only=True)` reads classes that are allow-listed, and ours do that when they are
imported. Importing them with the package would import torch for everyone who only reads a config.
Where torch comes later, in the order that import sorters write, this waits for it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_TORCH = "torch"
_CLASSES = "qconfig.tensors"


def import_tensors_with_torch() -> None:
    """Import the tensor classes now if torch is imported, else right after it."""
    if _TORCH in sys.modules:
        import_module(_CLASSES)
    else:
        sys.meta_path.insert(0, _Waiting())


class _Waiting(MetaPathFinder):
    """Finds torch where it is, once, with a loader that imports our classes after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TORCH:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader)
        return spec


class _Then(Loader):
    """Runs another loader, then imports our classes."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on torch has its own loader, as tools that look into modules expect.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        import_module(_CLASSES)
