"""Which of torch's own classes a module has: others have the same names."""

from qconfig.builders.base import ModuleTarget, Target


def torch_class(target: Target | ModuleTarget) -> str | None:
    """Return the name of torch's own class of a module; None for any other, and for subclasses.

    Without a model there is only the name of a class, which is returned. Torch is imported where
    there is a model alone.
    """
    if target.module_type is None:
        return target.module_classes[0] if target.module_classes else None
    from torch import nn

    own: dict[type, str] = {
        nn.Linear: "Linear",
        nn.Conv1d: "Conv1d",
        nn.Conv2d: "Conv2d",
        nn.Embedding: "Embedding",
        nn.Identity: "Identity",
        nn.ReLU: "ReLU",
        nn.AvgPool2d: "AvgPool2d",
        nn.AdaptiveAvgPool2d: "AdaptiveAvgPool2d",
    }
    return own.get(target.module_type)
