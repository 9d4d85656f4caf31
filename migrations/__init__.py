"""Retired classes and the steps between versions, one file a name."""
