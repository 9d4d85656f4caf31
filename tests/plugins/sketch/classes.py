"""What the entry point names: it registers configs, layouts, steps, the builder and the tensor."""

from . import builder, tensor

__all__ = ["builder", "tensor"]
