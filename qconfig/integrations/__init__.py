"""Quantized state in the tools of others, each in a module that imports its tool."""
