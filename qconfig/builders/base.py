"""The contract of a builder: from a config and a weight to a quantized tensor.

`engine` knows builders only through this module. It imports no torch, so that a plan can be made
from shapes alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from attrs import frozen

from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.errors import BuildError, RegistrationError
from qconfig.versioning import Config, Layout, registry
from qconfig.versioning.modules import import_modules

if TYPE_CHECKING:
    import torch
    from torch import nn

B = TypeVar("B", bound=type)

PREPARED = "PreparedForTraining"
"""Name of a base class of modules that stand in for others while a model trains; only builders that
change modules serve them."""


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
        module_type: the owner's class itself, for classes of other libraries may have torch's
            names; None for a checkpoint without a model.
    """

    fqn: str
    shape: tuple[int, ...]
    dtype: DType
    module_classes: tuple[str, ...] = ()
    named: bool = False
    module_type: type | None = None

    @property
    def module(self) -> str:
        """Name of the owning module; "" for a parameter of the root."""
        return self.fqn.rpartition(".")[0]

    @property
    def parameter(self) -> str:
        """Name of the parameter within its module."""
        return self.fqn.rpartition(".")[2]


@frozen
class ModuleTarget:
    """A module that has neither parameters nor children, such as an activation function.

    Only rules that name it, or its class, reach it, and only for configs whose builders are
    `ActivationModuleBuilder`.

    Args:
        fqn: its name.
        module_classes: names of its class and the bases of it, nearest first.
        module_type: its class itself.
    """

    fqn: str
    module_classes: tuple[str, ...]
    module_type: type | None = None


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


@runtime_checkable
class CalibratedBuilder(Protocol):
    """A builder that uses what calibration observed at a layer."""

    def needs_calibration(self, config: Any) -> bool:
        """Return whether this config cannot do without. Pure."""

    def build(
        self, config: Any, weight: "torch.Tensor", calibration: LayerCalibration | None = None
    ) -> "torch.Tensor":
        """Return the quantized tensor.

        Raises:
            BuildError: the config needs what `calibration` does not hold.
        """


@runtime_checkable
class QparamsBuilder(Protocol):
    """A builder that takes scales and zero points, such as training has learned."""

    def build_with_qparams(
        self,
        config: Any,
        weight: "torch.Tensor",
        scale: "torch.Tensor",
        zero_point: "torch.Tensor | None",
    ) -> "torch.Tensor":
        """Return the tensor of codes `clamp(round(weight / scale) + zero_point)`.

        Args:
            config: the config.
            weight: (N, K) or (B, N, K), floating point.
            scale: one entry a block, in the layout's shape.
            zero_point: shaped like `scale`; None stands for zeros.

        Raises:
            BuildError or LayoutError: they do not fit the weight or the config.
        """


@runtime_checkable
class ModuleBuilder(Protocol):
    """A builder that changes the module of a weight as well, as training with fake codes does."""

    def build_module(self, config: Any, module: "nn.Module", name: str) -> "nn.Module":
        """Return the module that takes the place of `module`, which is left as it is.

        Args:
            config: the config.
            module: the owner of the weight.
            name: name of the weight within its module.

        Raises:
            BuildError: the module cannot be served.
        """

    def plan_note(self, config: Any) -> str | None:
        """Return what a plan should say about weights that do not become packed at once, or None.

        Pure.
        """


@runtime_checkable
class ActivationModuleBuilder(Protocol):
    """A builder that serves modules without parameters as well: it quantizes what they return."""

    def activation_refusal(self, config: Any, target: ModuleTarget) -> str | None:
        """Return why the config cannot serve this module, or None. Pure."""

    def build_activation_module(self, config: Any, module: "nn.Module") -> "nn.Module":
        """Return the module that takes the place of `module`, which is left as it is.

        Raises:
            BuildError: the module cannot be served.
        """


@runtime_checkable
class NotesCheckpoints(Protocol):
    """A builder whose configs may say more than what a checkpoint without a model can be given."""

    def checkpoint_note(self, config: Any) -> str | None:
        """Return what of a config is not applied to a checkpoint, or None. Pure."""


@runtime_checkable
class ChecksLayouts(Protocol):
    """A builder whose layouts say in small tensors, too, what its configs decide."""

    def disagreement(self, config: Any, found: Layout, expected: Layout) -> tuple[str, str] | None:
        """Return what a stored layout says and what a config does, where they differ.

        Args:
            config: the config.
            found: the stored layout; tensors of one number may be loaded, no others.
            expected: what `layout` gives, of the same class.
        """


@runtime_checkable
class TrainingBuilder(Protocol):
    """A builder whose modules keep a float weight while they train, and record that beside it."""

    def training_record(self, fqn: str) -> str:
        """Return the name of the tensor that is stored beside a weight which still trains."""

    def training_disagreement(self, config: Any, record: "torch.Tensor") -> tuple[str, str] | None:
        """Return what such a tensor says and what a config does, where they differ."""


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
    builder = _builders.get(type(config))
    if builder is None:
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
