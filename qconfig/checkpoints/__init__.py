"""Checkpoints: read, write, quantize, upgrade, verify; streaming and atomic."""
