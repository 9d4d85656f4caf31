"""The table of real files in the docs: what torchao 0.18 makes of them, and what qconfig does.

The numbers come from the baseline, `tests/data/torchao/load_table.json`.
"""

import json
import re
from collections import Counter
from pathlib import Path

from tests.torchao_files import DATA, ROOT

BASELINE = DATA / "load_table.json"
PAGE = ROOT / "docs" / "old-torchao-checkpoints.md"
README = ROOT / "README.md"
Baseline = dict[str, dict[str, tuple[str, str, float]]]

# The codes of LOAD_TABLE.md beside the collection: `k` is equal where torchao has no kernel for
# the output on a CPU, `u` is read only where pickles may run code.
_EQUAL = frozenset({"=", "=k"})
_UNSAFE = frozenset({"u="})
_OTHERWISE = frozenset({"~", "D", "u~"})


def baseline() -> Baseline:
    """Return state, torchao's code and the largest gap of each file, by release and name."""
    stored = json.loads(BASELINE.read_text("utf-8"))
    return {r: {name: tuple(row) for name, row in each.items()} for r, each in stored.items()}


def page_table(rows: Baseline) -> list[str]:
    """Return the table for the page on old checkpoints, one line a release."""
    head = (
        "| torchao | files | torchao 0.18: equal | only by running the pickle | other numbers "
        "| unreadable or broken | qconfig: equal | up to roundings of sums | named change "
        "| structure only | not in the file | refused |"
    )
    lines = [head, "|---|" + "---:|" * 11]
    total: Counter[str] = Counter()
    for release in sorted(rows, key=lambda r: [int(n) for n in r.split(".")]):
        counts = _counts(list(rows[release].values()))
        total += counts
        lines.append(_line(release, counts))
    return [*lines, _line("all", total)]


def totals(rows: Baseline) -> str:
    """Return the sentence for the README."""
    old = [row for release, each in rows.items() if release != "0.18.0" for row in each.values()]
    counts = _counts(old)
    ours = counts["exact"] + counts["sums"]
    refused = counts["refused"]
    read = f"all but {refused}" if refused else "all"
    return (
        f"Of {counts.total() // 2} checkpoints that torchao 0.4 to 0.17 wrote, torchao 0.18 opens "
        f"{counts['equal']} with equal weights and outputs. qconfig opens {read}: {ours} have "
        "their release's weights bit for bit, and its outputs bit for bit or up to the order of a "
        f"sum; {counts['explained']} differ by what the report names and bounds, "
        f"{counts['structure']} hold zeros in place of codes, {counts['absent']} lacks what was "
        "quantized."
    )


def readme_table(rows: Baseline) -> list[str]:
    """Return the table for the README: the two side by side, in few columns."""
    head = "| written by torchao | files | torchao 0.18: bits equal | qconfig: bits equal "
    lines = [f"{head}| sums in another order | named and bounded |", "|---|" + "---:|" * 5]
    for release in sorted(rows, key=lambda r: [int(n) for n in r.split(".")]):
        counts = _counts(list(rows[release].values()))
        cells = (
            counts.total() // 2,
            counts["equal"] + counts["unsafe"],
            counts["exact"],
            counts["sums"],
            counts["explained"],
        )
        lines.append(f"| {release} | {' | '.join(map(str, cells))} |")
    return lines


def readme_text(rows: Baseline) -> str:
    """Return what the README says: the totals, and the table."""
    return "\n".join([totals(rows), "", *readme_table(rows)])


def put(path: Path, marker: str, text: str) -> str:
    """Return the text of a page with `text` between its markers."""
    begin, end = f"<!-- {marker} -->", f"<!-- end {marker} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", path.read_text("utf-8"))


def write_docs(rows: Baseline) -> None:
    """Write both into the docs."""
    PAGE.write_text(put(PAGE, "load table", "\n".join(page_table(rows))), "utf-8")
    README.write_text(put(README, "load totals", readme_text(rows)), "utf-8")


def _counts(rows: list[tuple[str, str, float]]) -> Counter[str]:
    """Count each file once under its state, and once under what torchao does."""
    counts = Counter(state for state, _, _ in rows)
    counts.update(_torchaos(code) for _, code, _ in rows)
    return counts


def _torchaos(code: str) -> str:
    if code in _EQUAL:
        return "equal"
    if code in _UNSAFE:
        return "unsafe"
    return "otherwise" if code in _OTHERWISE else "lost"


def _line(release: str, counts: Counter[str]) -> str:
    columns = ("equal", "unsafe", "otherwise", "lost")
    states = ("exact", "sums", "explained", "structure", "absent", "refused")
    cells = [str(counts[key] or "") for key in (*columns, *states)]
    return f"| {release} | {counts.total() // 2} | {' | '.join(cells)} |"
