import pytest

from qconfig.integrations.distributed_checkpoint import load_distributed
from qconfig.testing.subject import equal_packed
from tests.integrations import two_processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return where both processes write."""
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def problems(folder):
    """Return what went wrong in either process, by name of the check."""
    return two_processes.start(folder)


@pytest.mark.parametrize("check", [c.__name__ for c in two_processes.CHECKS])
def test_two_processes(problems, check):
    """In two processes with gloo, each check of `two_processes` holds."""
    assert not problems[check], "\n".join(problems[check])


def test_rows_of_two_processes_are_read_by_one(problems, folder):
    """What two processes saved by rows, one without a process group loads whole, bit for bit."""
    found = load_distributed(checkpoint_id=folder / "rows")
    for name, tensor in found.items():
        assert equal_packed(tensor, two_processes.weight(name))
