"""Rules: what an operation makes of the metadata of quant tensors.

A rule is the code that runs and the words of the documentation in one: a `Formula` is both, and
`docs/quant-tensor-rules.md` is generated from the tables.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen


@frozen
class Formula:
    """How one field of a result follows from the operands.

    Args:
        text: in words or symbols, as the documentation shows it.
        compute: takes the operands of the rule.
    """

    text: str
    compute: Callable[..., Any] = field(repr=False)

    def __call__(self, *operands: Any) -> Any:
        """Return the field of the result."""
        return self.compute(*operands)


@frozen
class Rule:
    """What an operation of torch does with quant tensors.

    Args:
        operation: how the documentation shows it, such as `a + b`.
        functions: the functions of torch that it is.
        apply: takes the function that was called, then its arguments.
        result: what becomes of the fields, by name: formulas or words.
        otherwise: when the result is a plain tensor, or an error.
    """

    operation: str
    functions: tuple[Any, ...] = field(repr=False)
    apply: Callable[..., Any] = field(repr=False)
    result: Mapping[str, Formula | str]
    otherwise: str = ""

    def shown(self, name: str) -> str:
        """Return what becomes of a field, in words."""
        found = self.result.get(name, "")
        return found.text if isinstance(found, Formula) else found


class RuleTable:
    """The rules of a class of tensors, by function of torch."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules
        self.by_function: dict[Any, Callable[..., Any]] = {}
        for rule in rules:
            for function in rule.functions:
                self.by_function[function] = rule.apply
