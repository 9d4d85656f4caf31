"""What becomes of the files that torchao's releases wrote, compared with their writers' values.

`python -m tests.compatibility.load_table` prints a table of the collection beside the repository
(see `tests.torchao_files`); with `--write` it becomes the baseline that no row may fall behind, and
goes into the docs (see `tests.compatibility.load_docs`).

Each file is upgraded as a user would do it, loaded, and compared with what the release that wrote
it computed: the dequantized weights, and the output of each layer for recorded inputs.

| state | weights | outputs |
|---|---|---|
| exact | the writer's bits | the writer's bits |
| sums | the writer's bits | floats summed in another order: within some roundings of the output |
| explained | the writer's bits | another difference, which the report names, within its bound |
| structure | zeros stand for the codes | – |
| refused | – | – |
"""

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import torch
from attrs import frozen
from safetensors.torch import load_file
from torch.nn import functional

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.errors import QconfigError
from tests.compatibility.load_docs import BASELINE, baseline, write_docs
from tests.torchao_files import CORPUS

RANKS = ("wrong", "refused", "structure", "explained", "sums", "exact")
_SUM_ROUNDINGS = 8
_BOUND = 2.0**-4


@frozen
class Artifact:
    """One file of the collection.

    Args:
        release: what wrote it.
        name: fixture and suffix.
        root: the collection.
        file: the file.
        facts: what the manifest says of the fixture.
    """

    release: str
    name: str
    root: Path
    file: Path
    facts: dict[str, Any]


@frozen
class Row:
    """What became of a file: a state, and what there is to say."""

    state: str
    detail: str = ""


def artifacts(root: Path = CORPUS) -> Iterator[Artifact]:
    """Yield the files of a collection, release by release."""
    for manifest in sorted(root.glob("torchao/*/MANIFEST.json")):
        for name, facts in json.loads(manifest.read_text())["fixtures"].items():
            for suffix in (".pt", ".safetensors"):
                file = manifest.parent / (name + suffix)
                if file.exists():
                    yield Artifact(manifest.parent.name, name + suffix, root, file, facts)


def row_of(artifact: Artifact, *, named: bool = True) -> Row:
    """Upgrade and load a file and compare it with its writer's values.

    Args:
        artifact: the file.
        named: whether the upgrade is told which release wrote it.
    """
    writer = f"torchao=={artifact.release}" if named else None
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "new"
        try:
            report = upgrade_checkpoint(artifact.file, target, writer=writer)
            state = load_checkpoint(target, mmap=False)
        except QconfigError as error:
            first = error.problems[0]
            return Row("refused", f"{first.message} ({first.found})")
    if "truth" not in artifact.facts:
        return Row("structure", "the file holds zeros in place of codes")
    origins = [t.origin for t in report.tensors if t.origin]
    changes = sorted({text for origin in origins for text in origin.changes})
    unknown = sorted({text for origin in origins for text in origin.ambiguities})
    return _compared(artifact, state, changes, unknown)


def _compared(
    artifact: Artifact, state: dict[str, Any], said: list[str], unknown: list[str]
) -> Row:
    truth = load_file(artifact.root / artifact.facts["truth"])
    inputs = load_file(artifact.root / artifact.facts["inputs"])
    floats = load_file(artifact.root / artifact.facts["float_weights"])
    worst = Row("exact")
    for name, expected in truth.items():
        if name.endswith(".dequant"):
            weight = state[name.removesuffix(".dequant")]
            found = weight.dequantize() if hasattr(weight, "layout_class") else weight
            if found.shape != expected.shape:
                return Row("wrong", f"{name} has shape {tuple(found.shape)}")
            if found.dtype != expected.dtype or not torch.equal(found, expected):
                gap = (found.double() - expected.double()).abs().max().item()
                if said + unknown and gap <= _BOUND * expected.double().abs().max().item():
                    return Row("explained", "; ".join(said + unknown))
                return Row("wrong", f"{name} differs by {gap:.3g}")
            continue
        module = name.removesuffix(".out")
        row = _output(module, state, inputs[module], expected, said)
        worst = min(worst, row, key=lambda r: RANKS.index(r.state))
    for name, tensor in state.items():
        if (
            name in floats
            and not hasattr(tensor, "layout_class")
            and f"{name}.dequant" not in truth
        ):
            expected = floats[name]
            if tensor.shape == expected.shape and not torch.equal(tensor, expected):
                return Row("wrong", f"{name} is plain and changed")
    return worst


def _output(
    module: str,
    state: dict[str, Any],
    inputs: torch.Tensor,
    expected: torch.Tensor,
    said: list[str],
) -> Row:
    # An embedding of torchao's experimental quantizer lies in a module of its own, and up to 0.10
    # its codes are in no file.
    names = (f"{module}.weight", f"{module}.embedding.weight")
    weight = next((state[name] for name in names if name in state), None)
    if weight is None:
        return Row("exact", f"{module} is not in the file")
    try:
        with torch.no_grad():
            if inputs.dtype == torch.int64:
                found = functional.embedding(inputs, weight)
            elif weight.dim() > 2:
                found = torch.bmm(inputs, weight.transpose(-1, -2))
            else:
                found = functional.linear(inputs, weight, state.get(f"{module}.bias"))
    except (QconfigError, RuntimeError) as error:
        return Row("wrong", f"{module}: {error}")
    if torch.equal(found, expected):
        return Row("exact")
    gap = (found.double() - expected.double()).abs().max().item()
    size = expected.double().abs().max().item()
    roundings = gap / (size * torch.finfo(expected.dtype).eps)
    detail = f"{module}: {roundings:.1f} roundings of the largest output"
    if roundings <= _SUM_ROUNDINGS and not said:
        return Row("sums", detail)
    if said and gap <= _BOUND * size:
        return Row("explained", f"{detail}; {'; '.join(said)}")
    return Row("wrong", detail)


def torchaos(root: Path = CORPUS) -> dict[tuple[str, str], str]:
    """Return what torchao 0.18 does with each file, as a code; see `LOAD_TABLE.md` there.

    The table of `.pt` files comes first and that of `.safetensors` files second.
    """
    found: dict[tuple[str, str], str] = {}
    text = (root / "torchao" / "LOAD_TABLE.md").read_text("utf-8")
    sections = text.split("\n### ")[1:3]
    for section, suffix in zip(sections, (".pt", ".safetensors"), strict=True):
        lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
        releases = lines[0][1:]
        for name, *codes in lines[2:]:
            fixture = name.replace("/", "__") + suffix
            found |= {(r, fixture): c for r, c in zip(releases, codes, strict=True) if c != "."}
    return found


def table(rows: dict[str, dict[str, Row]]) -> list[str]:
    """Return lines of Markdown: per release, how many files are in each state."""
    states = list(reversed(RANKS))
    lines = [f"| release | files | {' | '.join(states)} |", "|---" * (len(states) + 2) + "|"]
    total: Counter[str] = Counter()
    for release in sorted(rows, key=lambda r: [int(n) for n in r.split(".")]):
        counts = Counter(row.state for row in rows[release].values())
        total += counts
        cells = [str(counts[s] or "") for s in states]
        lines.append(f"| {release} | {counts.total()} | {' | '.join(cells)} |")
    cells = [str(total[s] or "") for s in states]
    return [*lines, f"| all | {total.total()} | {' | '.join(cells)} |"]


def write_baseline(rows: dict[str, dict[str, Row]], codes: dict[tuple[str, str], str]) -> None:
    """Write the state of each file, and torchao's code, as the baseline."""
    stored = {
        release: {name: [row.state, codes[release, name]] for name, row in each.items()}
        for release, each in rows.items()
    }
    BASELINE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Print the table of a collection; see the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="make it the baseline")
    parser.add_argument("--unnamed", action="store_true", help="do not say who wrote the files")
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument("--root", type=Path, default=CORPUS)
    options = parser.parse_args()
    rows: dict[str, dict[str, Row]] = defaultdict(dict)
    for artifact in artifacts(options.root):
        if options.only in artifact.name:
            row = row_of(artifact, named=not options.unnamed)
            rows[artifact.release][artifact.name] = row
            if row.state not in ("exact", "sums"):
                click.echo(f"{artifact.release}/{artifact.name}: {row.state}: {row.detail}")
    click.echo("\n".join(table(rows)))
    if options.write:
        write_baseline(rows, torchaos(options.root))
        write_docs(baseline())


if __name__ == "__main__":
    main()
