"""Run a model over batches and observe its layers."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from qconfig.calibration.calibration import Calibration
from qconfig.calibration.layer_observer import LayerObserver
from qconfig.configs.calibration import CalibratedLayer, CalibrationConfig, CalibrationRecord
from qconfig.errors import UsageError, nearest
from qconfig.versioning import Config, registry


def calibrate(
    model: nn.Module, batches: Iterable[Any], config: Config | None = None
) -> Calibration:
    """Run a model over batches and return what was observed of its layers.

    The model runs in eval mode and without gradients; afterwards each module is in the mode that it
    had, and no hook is left, also after a failure. Of the inputs of a layer no more is kept than a
    sample of `config.sample_rows` rows. A layer called several times is observed each time. A layer
    that is never called, or only with empty inputs, is in `Calibration.unseen`.

    Args:
        model: any module; its linears are observed as they are, quantized ones too.
        batches: what the model is called with: a tensor, a tuple or list of positional arguments,
            or a mapping of keyword arguments; on the model's device.
        config: a `CalibrationConfig`; None means its defaults. It says what is observed. What a
            layer becomes is said by the config that `quantize_` is given later.

    Raises:
        UsageError: another kind of config, no batch, a batch of another kind, or no such layer.
        BuildError: an activation that is NaN or infinite; the layer and the batch are named.
    """
    config = CalibrationConfig() if config is None else registry.convert(config)
    if not isinstance(config, CalibrationConfig):
        raise UsageError(
            "the config does not say how to observe",
            found=type(config).__name__,
            expected="a CalibrationConfig",
            hint="give the config of the weights to quantize_, together with the calibration",
        )
    observers = {
        name: (module, LayerObserver(name, shape, config))
        for name, (module, shape) in _observed(model, config).items()
    }
    count = 0
    with ExitStack() as stack:
        stack.enter_context(_eval_mode(model))
        stack.enter_context(torch.no_grad())
        for module, observer in observers.values():
            stack.enter_context(_watched(module, observer, lambda: count))
        for batch in batches:
            _call(model, batch, count)
            count += 1
            del batch  # or it would live until the next has been made
    if not count:
        raise UsageError("there is no batch", hint="has the iterator been used up before?")
    layers = {
        name: CalibratedLayer(o.in_features, o.out_features, o.calls, o.rows)
        for name, (_, o) in observers.items()
    }
    values = {name: o.result() for name, (_, o) in observers.items() if o.rows}
    return Calibration(CalibrationRecord(config, layers), values)


def _observed(
    model: nn.Module, config: CalibrationConfig
) -> dict[str, tuple[nn.Module, tuple[int, int]]]:
    """Return the layers to observe by their first name, each with the shape of its weight."""
    found: dict[str, tuple[nn.Module, tuple[int, int]]] = {}
    for name, module in model.named_modules():
        classes = {c.__name__ for c in type(module).__mro__}
        weight = getattr(module, "weight", None)
        if not classes & set(config.modules) or not isinstance(weight, torch.Tensor):
            continue
        if weight.dim() == 2 and not nn.parameter.is_lazy(weight):
            found[name] = (module, (weight.shape[0], weight.shape[1]))
    if config.layers:
        unknown = [name for name in config.layers if name not in found]
        if unknown:
            raise UsageError(
                "the model has no such layer of these classes",
                found=unknown,
                expected=f"modules of class {', '.join(config.modules)} with a matrix as weight",
                hint=nearest(unknown[0], found),
            )
        found = {name: found[name] for name in config.layers}
    if not found:
        raise UsageError(
            "the model has no layer to observe",
            expected=f"a module of class {', '.join(config.modules)} with a matrix as weight",
        )
    return found


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextmanager
def _watched(module: nn.Module, observer: LayerObserver, batch: Any) -> Iterator[None]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        value = args[0] if args else kwargs.get("input")
        if not isinstance(value, torch.Tensor) or not isinstance(output, torch.Tensor):
            raise UsageError(
                "the layer does not make one tensor of one tensor",
                fqn=observer.name,
                found=f"{type(value).__name__} to {type(output).__name__}",
                hint="leave its class out of CalibrationConfig.modules",
            )
        observer.see(value, output, batch())

    handle = module.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _call(model: nn.Module, batch: Any, number: int) -> None:
    if isinstance(batch, torch.Tensor):
        model(batch)
    elif isinstance(batch, tuple | list):
        model(*batch)
    elif isinstance(batch, Mapping):
        model(**batch)
    else:
        raise UsageError(
            f"batch {number} is nothing to call a model with",
            found=type(batch).__name__,
            expected="a tensor, a tuple or list of arguments, or a mapping of keyword arguments",
        )
