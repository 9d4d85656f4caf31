"""Sizes as people write them."""

import pytest

from qconfig.cli.sizes import parse_size
from qconfig.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("5GB", 5 * 10**9),
        ("4GiB", 4 * 2**30),
        ("1.5 kB", 1500),
        ("0.5kib", 512),
        ("2tb", 2 * 10**12),
        ("3TiB", 3 * 2**40),
        ("7B", 7),
        ("10mb", 10**7),
        ("1MiB", 2**20),
        ("0.1GB", 10**8),
    ],
)
def test_units_of_both_kinds(text, size):
    """Powers of 1000 and of 1024, in either case, exact."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GB", "-1GB", "5G", "5XB", "1e9", "0", "0.5", "1.GB", "٣GB", "1" * 19, "5GB ", "5  GB"],
)
def test_what_is_no_size_is_refused(text):
    """With what would be one."""
    with pytest.raises(UsageError, match="not a size") as caught:
        parse_size(text)
    assert "5GB" in str(caught.value)
