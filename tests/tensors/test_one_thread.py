"""Small parts are worked on by one thread, and torch's number of threads stays what it was."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from qconfig.tensors.one_thread import one_thread


def test_the_number_of_threads_comes_back() -> None:
    """After the block, and after an error in it, it is what it was."""
    before = torch.get_num_threads()
    with one_thread(), one_thread():
        assert torch.get_num_threads() == 1
    with pytest.raises(LookupError), one_thread():
        raise LookupError
    assert torch.get_num_threads() == before


def test_several_threads_leave_it_as_it_was() -> None:
    """Whoever leaves last, threads that begin afterwards have the usual number."""
    before = torch.get_num_threads()

    def work(_: int) -> int:
        with one_thread():
            return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(40))) == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == before
