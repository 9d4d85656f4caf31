"""The tables of docs/old-torchao-checkpoints.md, from the tables that the code reads files by.

`python -m tests.docs.torchao_tables` writes them into the page, between comments of their names.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from qconfig.dialects.torchao.removed import REMOVED
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.affine import IMPLEMENTATIONS
from qconfig.dialects.torchao.tensors.names import NAMES, releases_of
from qconfig.dialects.torchao.tensors.refusals import REFUSED
from qconfig.dialects.torchao.tensors.refused_names import REFUSED_TENSORS
from qconfig.dialects.torchao.tensors.table import READERS, read_tensor
from qconfig.tensors.classes import tensor_class_of
from qconfig.versioning import Entry, registry
from tests.dialects.stored_arrangements import ARRANGEMENTS
from tests.dialects.stored_forms import FORMS
from tests.repository.sources import ROOT

PAGE = ROOT / "docs" / "old-torchao-checkpoints.md"
AROUND = (
    "AffineQuantizedTensor",
    "LinearActivationQuantizedTensor",
    "StretchedAffineQuantizedTensor",
    "WeightTensorWithLinearActivationQuantizationMetadata",
    "WeightTensorWithLinearActivationScaleMetadata",
)
"""Classes that say something of a weight that lies in them; the page tells of them in words."""
_CHOSEN = re.compile(r"AQ\w+LinearWeight\d?")  # by autoquant; the page tells of them in words
_LATER = "and later"


def classes() -> Iterator[str]:
    """Yield the table of the classes that are read."""
    yield from ("| class | torchao | read as | becomes |", "|---|---|---|---|")
    names = [name for name in READERS if name not in AROUND and not _CHOSEN.fullmatch(name)]
    yield from _rows(names, {key: form[0] for key, form in FORMS.items()})


def arrangements() -> Iterator[str]:
    """Yield the table of the arrangements inside AffineQuantizedTensor that are read."""
    yield from ("| arrangement | torchao | read as | becomes |", "|---|---|---|---|")
    yield from _rows([*IMPLEMENTATIONS], {key: form[0] for key, form in ARRANGEMENTS.items()})


def refusals() -> Iterator[str]:
    """Yield the table of the classes that are refused, those of one reason together."""
    yield from ("| class | why not |", "|---|---|")
    reasons: dict[str, list[str]] = {}
    for name, refusal in REFUSED.items():
        reasons.setdefault(refusal.reason, []).append(f"`{name}` ({refusal.releases})")
    for reason, names in reasons.items():
        yield f"| {', '.join(names)} | {reason} |"


def configs() -> Iterator[str]:
    """Yield the table of the configs that are refused."""
    yield from ("| config | torchao | what no config here says | what to do |", "|---|---|---|---|")
    for name, removed in REMOVED.items():
        yield f"| `{name}` | {removed.releases} | {removed.why} | {removed.hint} |"


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "classes": classes,
    "arrangements": arrangements,
    "refusals": refusals,
    "configs": configs,
}
"""By the name in the page's comments."""


def marked(name: str, text: str) -> re.Match[str] | None:
    """Return the part of a page between the comments of a table's name; group 1 is the table."""
    return re.search(f"<!-- {name} -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)


def span(releases: list[str]) -> str:
    """Return the first and the last of some ranges of releases, such as "0.7 to 0.16"."""
    found = [int(n) for text in releases for n in re.findall(r"0\.(\d+)", text)]
    first, last = f"0.{min(found)}", f"0.{max(found)}"
    if any(_LATER in text for text in releases):
        return f"{first} {_LATER}"
    return first if first == last else f"{first} to {last}"


def _rows(names: list[str], forms: Mapping[str, Stored]) -> Iterator[str]:
    """Yield a row for each class, or for several that have all but the name in common."""
    rows: dict[str, list[str]] = {}
    for name in names:
        own = [form for key, form in forms.items() if key.partition(" ")[0] == name]
        if not own:
            raise LookupError(f"{name} has no form in tests/dialects")
        rows.setdefault(_cells(name, own), []).append(f"`{name}`")
    for cells, together in rows.items():
        yield f"| {', '.join(together)} | {cells} |"


def _cells(name: str, forms: list[Stored]) -> str:
    named = [path for path in NAMES if path.rpartition(".")[2] == name]
    paths = [path for path in named if path not in REFUSED_TENSORS]  # others of that name
    releases = span([text for path in paths if (text := releases_of(path)) is not None])
    entries = dict.fromkeys(map(_entry, forms))
    versions = {e.name: [o.version for o in entries if o.name == e.name] for e in entries}
    read = [f"`{key}` {_versions(numbers)}" for key, numbers in versions.items()]
    becomes = [f"`{tensor_class_of(registry.current(e).cls).__name__}`" for e in entries]
    return f"{releases} | {', '.join(read)} | {', '.join(dict.fromkeys(becomes))}"


def _entry(stored: Stored) -> Entry:
    """Return the layout version that a stored tensor is read as, before any step."""
    read = read_tensor(stored)
    steps = read.origin.steps
    return steps[0].source if steps else registry.entry_of(type(read.layout))


def _versions(versions: list[int]) -> str:
    low, high = min(versions), max(versions)
    return str(low) if low == high else f"{low} to {high}"


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        match = marked(name, text)
        if match is not None:
            lines = "".join(f"{line}\n" for line in table())
            text = text[: match.start(1)] + lines + text[match.end(1) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
