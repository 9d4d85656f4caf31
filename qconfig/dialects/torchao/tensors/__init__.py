"""Tensors that torchao stored, one module a family: from its names to layouts of ours."""
