"""What becomes of the files that torchao's releases wrote, compared with their writers' values.

`python -m tests.compatibility.load_table` prints a table of the collection beside the repository
(see `tests.torchao_files`); with `--write` it becomes the baseline that no row may fall behind, and
goes into the docs (see `tests.compatibility.load_docs`).

Each file is upgraded as a user would do it, loaded, and compared with what the release that wrote
it computed: the dequantized weights, and the output of each layer for recorded inputs.

| state | weights | outputs |
|---|---|---|
| exact | the writer's bits | the writer's bits |
| sums | the writer's bits | off by `max(eps, K * 2**-23) * (|x| @ |W|.T + |b|)` at most |
| explained | the writer's bits, or a named change | a change that the report names |
| structure | zeros stand for the codes | – |
| absent | in no file of the release | – |
| refused | – | – |

Each row has the largest difference, relative to the largest value that the writer has.
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
from attrs import evolve, frozen
from safetensors.torch import load_file
from torch.nn import functional

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.errors import QconfigError
from tests.compatibility.load_docs import BASELINE, baseline, write_docs
from tests.torchao_files import CORPUS

RANKS = ("wrong", "refused", "structure", "absent", "explained", "sums", "exact")
_LARGEST = 2.0**-4


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
    """What became of a file.

    Args:
        state: see the module.
        detail: what there is to say.
        gap: largest difference to the writer's value, relative to the largest of these.
    """

    state: str
    detail: str = ""
    gap: float = 0.0


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
    origins = {t.fqn: t.origin for t in report.tensors if t.origin}
    # Who does not say the writer has the ambiguities; what was taken is then a change, too.
    said = {
        fqn: (*origin.changes, *(() if named else origin.ambiguities))
        for fqn, origin in origins.items()
    }
    return _compared(artifact, state, said)


def _compared(artifact: Artifact, state: dict[str, Any], said: dict[str, tuple[str, ...]]) -> Row:
    truth = load_file(artifact.root / artifact.facts["truth"])
    inputs = load_file(artifact.root / artifact.facts["inputs"])
    floats = load_file(artifact.root / artifact.facts["float_weights"])
    rows = [Row("exact")]
    for name, expected in truth.items():
        if name.endswith(".dequant"):
            fqn = name.removesuffix(".dequant")
            rows.append(_weight(fqn, state[fqn], expected, said.get(fqn, ())))
        else:
            module = name.removesuffix(".out")
            rows.append(_output(module, state, inputs[module], expected, said))
    for name in floats.keys() & state.keys():
        tensor, expected = state[name], floats[name]
        is_plain = not hasattr(tensor, "layout_class") and f"{name}.dequant" not in truth
        if is_plain and tensor.shape == expected.shape and not torch.equal(tensor, expected):
            rows.append(Row("wrong", f"{name} is plain and changed"))
    worst = min(rows, key=lambda r: RANKS.index(r.state))
    return evolve(worst, gap=max(r.gap for r in rows))


def _weight(fqn: str, weight: Any, expected: torch.Tensor, said: tuple[str, ...]) -> Row:
    found = weight.dequantize() if hasattr(weight, "layout_class") else weight
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return Row("wrong", f"{fqn} is {found.dtype} {tuple(found.shape)}")
    if torch.equal(found, expected):
        return Row("exact")
    gap = _gap(found, expected)
    named = [text for text in said if text.startswith(("values:", "per_tensor_scale:"))]
    state = "explained" if named and gap <= _LARGEST else "wrong"
    return Row(state, f"{fqn} differs by {gap:.2g}; {'; '.join(named)}", gap)


def _output(
    module: str,
    state: dict[str, Any],
    inputs: torch.Tensor,
    expected: torch.Tensor,
    said: dict[str, tuple[str, ...]],
) -> Row:
    # An embedding of torchao's experimental quantizer lies in a module of its own, and up to 0.10
    # its codes are in no file.
    names = (f"{module}.weight", f"{module}.embedding.weight")
    fqn = next((name for name in names if name in state), None)
    if fqn is None:
        return Row("absent", f"{module} is not in the file")
    weight, bias = state[fqn], state.get(f"{module}.bias")
    try:
        with torch.no_grad():
            if inputs.dtype == torch.int64:
                found = functional.embedding(inputs, weight)
            elif weight.dim() > 2:
                found = torch.bmm(inputs, weight.transpose(-1, -2))
            else:
                found = functional.linear(inputs, weight, bias)
    except (QconfigError, RuntimeError) as error:
        return Row("wrong", f"{module}: {error}")
    if torch.equal(found, expected):
        return Row("exact")
    gap = _gap(found, expected)
    difference = (found.double() - expected.double()).abs()
    if (difference <= _bound_of_sums(weight, inputs, bias, expected.dtype)).all():
        return Row("sums", f"{module} differs by {gap:.2g}", gap)
    changes = said.get(fqn, ())
    state_of_row = "explained" if changes and gap <= _LARGEST else "wrong"
    return Row(state_of_row, f"{module} differs by {gap:.2g}; {'; '.join(changes)}", gap)


def _bound_of_sums(
    weight: Any, inputs: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """Return by how much two sums of the same products may differ, element by element."""
    with torch.no_grad():
        seen, values = inputs, weight
        if hasattr(weight, "layout_class"):
            seen, values = weight.activation_seen(inputs), weight.dequantize()
        sizes = seen.double().abs() @ values.double().abs().transpose(-1, -2)
        if bias is not None:
            sizes = sizes + bias.double().abs()
    return max(torch.finfo(dtype).eps, inputs.shape[-1] * 2.0**-23) * sizes


def _gap(found: torch.Tensor, expected: torch.Tensor) -> float:
    difference = (found.double() - expected.double()).abs().max().item()
    return difference / expected.double().abs().max().item()


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
        release: {
            name: [row.state, codes[release, name], float(f"{row.gap:.2g}")]
            for name, row in each.items()
        }
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
