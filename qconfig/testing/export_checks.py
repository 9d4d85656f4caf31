"""Checks under torch.export."""

import warnings

import torch

from qconfig.testing.subject import Subject, require, require_close


def exported_program(subject: Subject) -> None:
    """A module with a quantized weight exports for any batch and computes the same."""
    layer, x = subject.quantized_linear(), subject.activation(4)
    rows = torch.export.Dim("rows", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},), strict=False)
        for count in (4, 9):
            x = subject.activation(count)
            require_close(program.module()(x), layer(x), f"the exported program, batch of {count}")


def decomposed_program(subject: Subject) -> None:
    """The exported program can be lowered to core operators."""
    layer, x = subject.quantized_linear(), subject.activation(4)
    with torch.no_grad(), warnings.catch_warnings():
        # torch 2.13 copies a structure whose class it has deprecated.
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        program = torch.export.export(layer, (x,), strict=False).run_decompositions()
        require_close(program.module()(x), layer(x), "the decomposed program")
    names = {type(value).__name__ for value in program.state_dict.values()}
    require(names, "the exported program holds no state")


CHECKS = (exported_program, decomposed_program)
