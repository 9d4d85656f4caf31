"""Checks that any builder of quantized tensors can be run through."""

from qconfig.testing.conformance import conformance
from qconfig.testing.subject import Check, ConformanceFailure, Subject

__all__ = ["Check", "ConformanceFailure", "Subject", "conformance"]
