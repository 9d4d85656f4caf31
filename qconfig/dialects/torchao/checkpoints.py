"""The two dialects of torchao's checkpoints: its flattened safetensors, and pickles."""

from qconfig.checkpoints.dialects import dialects

__all__: list[str] = []
