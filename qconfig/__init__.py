"""Versioned configs and tensor layouts for quantized PyTorch models."""

from qconfig import catalog
from qconfig.versioning import registry

registry.on_first_use(catalog.load)
