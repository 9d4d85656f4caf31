"""Observing activations, so that scales can be fixed before a model runs."""
