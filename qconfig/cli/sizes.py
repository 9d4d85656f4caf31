"""Sizes as people write them: `5GB` is 5 * 10**9 bytes, `4GiB` is 4 * 2**30."""

import re
from decimal import Decimal

from qconfig.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000 ** (i + 1) for i, letter in enumerate("kmgt")},
    **{f"{letter}ib": 1024 ** (i + 1) for i, letter in enumerate("kmgt")},
}
_FORM = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([a-z]{0,3})", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Return a size in bytes, at least 1.

    Args:
        text: a number, and `B`, `kB`, `MB`, `GB` or `TB` for powers of 1000, or `KiB`, `MiB`,
            `GiB` or `TiB` for powers of 1024, in either case; without a unit it is bytes.

    Raises:
        UsageError: another form, or less than one byte.
    """
    match = _FORM.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    size = int(Decimal(match[1]) * unit) if match and unit else 0
    if size < 1:
        raise UsageError(
            "not a size", found=text, expected="a number and a unit, such as 500MB, 5GB or 4GiB"
        )
    return size
