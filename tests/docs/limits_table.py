"""The table of docs/limits.md, made from `Limits`.

python -m tests.docs.limits_table    writes it into the page
"""

import re
from collections.abc import Iterator

import attrs

from qconfig.limits import DEFAULT_LIMITS, Limits
from tests.docs.torchao_tables import marked
from tests.repository.sources import ROOT

PAGE = ROOT / "docs" / "limits.md"
NAME = "limits"


def meanings() -> dict[str, str]:
    """Return what each field bounds, as the docstring of `Limits` says."""
    text = (Limits.__doc__ or "").partition("Args:")[2].partition("Raises:")[0]
    found = re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def rows() -> Iterator[str]:
    """Yield the lines of the table."""
    yield from ("| bound | default | of what |", "|---|---:|---|")
    said = meanings()
    for field in attrs.fields(Limits):
        value = getattr(DEFAULT_LIMITS, field.name)
        yield f"| `{field.name}` | {value:,} | {said[field.name]} |"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    match = marked(NAME, text)
    if match is not None:
        lines = "".join(f"{line}\n" for line in rows())
        text = text[: match.start(1)] + lines + text[match.end(1) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
