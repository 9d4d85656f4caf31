"""The seeds of the fuzz targets and a fixed number of changes of each: no error but ours.

Without a fuzzer, and the same on every run. `make fuzz` looks further.
"""

from pathlib import Path

import pytest

from tests.fuzz.mutations import mutations
from tests.fuzz.targets import TARGETS, attempt

CORPUS = Path(__file__).with_name("corpus")
CHANGES = {"torchao_metadata": 1500}
"""Of all seeds of a target together, where it is not `FEW`: as many as take a second or two."""
FEW = 3000


def seeds(target):
    """Return the seeds of a target by name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).glob("*.seed"))}


@pytest.mark.parametrize("target", TARGETS)
def test_seeds(target, tmp_path):
    """Every seed is read or refused; most are read, so that changes start from sound files."""
    taken = [attempt(target, data, tmp_path) for data in seeds(target).values()]
    assert sum(taken) > len(taken) / 2


@pytest.mark.parametrize("target", TARGETS)
def test_changed_seeds(target, tmp_path):
    """Every change of a seed is read or refused."""
    found = seeds(target)
    for name, seed in found.items():
        for data in mutations(f"{target}/{name}", seed, CHANGES.get(target, FEW) // len(found)):
            try:
                attempt(target, data, tmp_path)
            except Exception as error:
                error.add_note(f"{target}/{name} changed to {data!r}")
                raise


def test_every_target_has_seeds():
    """The folders of the corpus are those of the targets."""
    assert {path.name for path in CORPUS.iterdir()} == {*TARGETS}


def test_the_corpus_is_small():
    """All seeds together take less than 300 KB."""
    assert sum(len(data) for target in TARGETS for data in seeds(target).values()) < 300_000


def test_changes_are_the_same_on_every_run():
    """Changes follow from the seed's name and bytes alone."""
    seed = b'{"a": [1, 2, {"b": "c"}]}'
    assert [*mutations("x", seed, 20)] == [*mutations("x", seed, 20)]
    assert len({*mutations("x", seed, 20)}) > 15
