"""The tables of docs/quant-tensor-rules.md, from the rules that the code runs.

`python -m tests.docs.quant_tensor_rules` writes them into the page, between comments of their
names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from qconfig.tensors.quant_tensor.float_rules import FLOAT_RULES
from qconfig.tensors.quant_tensor.groupwise_rules import GROUPWISE_RULES
from qconfig.tensors.quant_tensor.int_rules import INT_RULES
from qconfig.tensors.quant_tensor.rules import Rule, RuleTable
from tests.docs.torchao_tables import marked
from tests.repository.sources import ROOT

PAGE = ROOT / "docs" / "quant-tensor-rules.md"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "value": ("value",),
    "scale": ("scale",),
    "zero_point": ("zero_point",),
    "bit_width": ("bit_width", "exponent_bit_width"),
    "signed": ("signed",),
}
"""By the head of a column, the fields that it may show."""
_NOTHING = "–"
_MARKUP = re.compile(r"[|*]")


def table(rules: RuleTable) -> Iterator[str]:
    """Yield the table of a family; operations that differ in their name alone share a row."""
    heads = ["operation", *(f"`{name}`" for name in COLUMNS), "otherwise"]
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    rows: dict[tuple[str, ...], list[str]] = {}
    for rule in rules.rules:
        rows.setdefault(tuple(_cells(rule)), []).append(rule.operation)
    for cells, operations in rows.items():
        shown = [", ".join(operations), *cells]
        yield f"| {' | '.join(map(_escaped, shown))} |"


def _escaped(cell: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", cell)


def _cells(rule: Rule) -> Iterator[str]:
    for names in COLUMNS.values():
        words = next((text for name in names if (text := rule.shown(name))), "")
        if rule.result and names == ("value",):
            words = words or "that of the values"
        yield words or _NOTHING
    yield rule.otherwise or _NOTHING


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "int": partial(table, INT_RULES),
    "float": partial(table, FLOAT_RULES),
    "groupwise": partial(table, GROUPWISE_RULES),
}
"""By the name in the page's comments."""


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in TABLES.items():
        match = marked(name, text)
        if match is not None:
            written = "".join(f"{line}\n" for line in lines())
            text = text[: match.start(1)] + written + text[match.end(1) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
