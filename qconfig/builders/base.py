"""The contract of a builder: from a config and a weight to a quantized tensor.

`engine` knows builders only through this module. It imports no torch, so that a plan can be made
from shapes alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.errors import BuildError, RegistrationError
from qconfig.versioning import Config, Layout, registry
from qconfig.versioning.modules import import_modules

if TYPE_CHECKING:
    import torch

B = TypeVar("B", bound=type)


@frozen
class Target:
    """A parameter that a config may reach.

    Args:
        fqn: name of the parameter, such as `model.layers.0.mlp.up_proj.weight`.
        shape: its dimensions.
        dtype: its element type.
        module_classes: names of the owner's class and its bases, nearest first; for a checkpoint
            without a model, the class inferred from name and rank.
        named: whether a rule names the parameter, or names its module or class and this is the
            weight: then the module can use a quantized one, even if nobody knows its class.
    """

    fqn: str
    shape: tuple[int, ...]
    dtype: DType
    module_classes: tuple[str, ...] = ()
    named: bool = False

    @property
    def module(self) -> str:
        """Name of the owning module; "" for a parameter of the root."""
        return self.fqn.rpartition(".")[0]

    @property
    def parameter(self) -> str:
        """Name of the parameter within its module."""
        return self.fqn.rpartition(".")[2]


class Builder(Protocol):
    """What `register_builder` takes: stateless, one instance for all weights."""

    def refusal(self, config: Any, target: Target) -> str | None:
        """Return why the config cannot serve this parameter, or None. Pure."""

    def layout(self, config: Any, target: Target) -> Layout:
        """Return the layout that `build` would give, with specs in place of tensors. Pure.

        Raises:
            FieldError or LayoutError: the config does not fit the shape.
        """

    def build(self, config: Any, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the quantized tensor; `weight` is left as it is."""


_METHODS = ("refusal", "layout", "build")
_builders: dict[type, Builder] = {}


def register_builder(config: type[Config]) -> Callable[[B], B]:
    """Register a builder class for a current config class.

    Raises:
        RegistrationError: the config is retired or has a builder already, or the class is none.
        UnknownNameError: the config is not registered.
    """

    def decorate(cls: B) -> B:
        entry = registry.entry_of(config)
        if not registry.is_current(entry):
            raise RegistrationError(f"{entry} is retired: a builder sees current configs only")
        if config in _builders:
            raise RegistrationError(f"{config.__name__} has a builder", found=cls.__name__)
        missing = [name for name in _METHODS if not callable(getattr(cls, name, None))]
        if missing:
            raise RegistrationError(
                f"{cls.__name__} is no builder",
                found=f"no {', '.join(missing)}",
                expected="the methods " + ", ".join(_METHODS),
            )
        _builders[config] = cls()
        return cls

    return decorate


def builder_of(config: Config) -> Builder:
    """Return the builder of a config.

    Raises:
        BuildError: nobody registered one.
    """
    load_builders()
    builder = _builders.get(type(config))
    if builder is None:
        raise BuildError(
            f"no builder for {registry.entry_of(type(config))}",
            expected="one of " + ", ".join(sorted(c.__name__ for c in _builders)),
        )
    return builder


def builders() -> dict[type, Builder]:
    """Return all builders by config class, those of plug-ins too."""
    load_builders()
    return dict(_builders)


def load_builders() -> None:
    """Import our own builders; plug-ins register theirs with their configs."""
    registry.load()
    import_modules("qconfig.builders")
