"""Which release of which library wrote a checkpoint, where the user can say it."""

import re
from typing import Self

from attrs import frozen

from qconfig.errors import UsageError

_FORM = re.compile(
    r"(?P<library>[a-z][a-z0-9_-]*)==(?P<major>\d{1,4})\.(?P<minor>\d{1,4})(\.\w+)*(\+[\w.]+)?"
)


@frozen
class Writer:
    """A release that wrote a file, as pip names it: `torchao==0.13`.

    Args:
        library: name of the package.
        release: its major and minor number.
    """

    library: str
    release: tuple[int, int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `library==major.minor`; what follows the minor number is ignored.

        Raises:
            UsageError: another form.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(
                "not a release", found=text, expected="a package and its release: torchao==0.13"
            )
        return cls(match["library"], (int(match["major"]), int(match["minor"])))

    @classmethod
    def of(cls, value: "Writer | str | None") -> "Writer | None":
        """Return a writer that may still be text.

        Raises:
            UsageError: text of another form.
        """
        return cls.parse(value) if isinstance(value, str) else value

    def __str__(self) -> str:
        return f"{self.library}=={self.release[0]}.{self.release[1]}"
