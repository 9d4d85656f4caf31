"""What the caller says about files that do not say it themselves."""

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from qconfig.errors import UsageError
from qconfig.versioning import Config


@frozen
class Guidance:
    """What a dialect is told beside the files.

    Args:
        config: how the model was quantized.
        missing: what to do about what the files lack, by patterns of names in their order; which
            words there are, the dialect says.
        dropped: patterns of names that may be left out of what is written.
    """

    config: Config | None = None
    missing: Mapping[str, str] = field(factory=dict)
    dropped: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return self.config is None and not self.missing and not self.dropped

    @property
    def described(self) -> str:
        """What was said, in a few words."""
        said = ["a config"] if self.config is not None else []
        said += [f"{pattern}={word}" for pattern, word in self.missing.items()]
        said += [f"dropped: {pattern}" for pattern in self.dropped]
        return ", ".join(said)


@frozen
class StateDictPlace:
    """Where in a pickled file its state_dict is, as the caller says.

    Args:
        key: the entry of the file that holds it; None where the file is the state_dict.
        prefix: what is taken off the names that begin with it, such as `module.`.
    """

    key: str | None = None
    prefix: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return self.key is None and not self.prefix

    @property
    def described(self) -> str:
        """What was said, in a few words."""
        said = [] if self.key is None else [f"key {self.key}"]
        said += [f"strip prefix {self.prefix}"] if self.prefix else []
        return ", ".join(said)


WHOLE = StateDictPlace()
"""The file is the state_dict."""


def policies(texts: Iterable[str]) -> dict[str, str]:
    """Return policies by patterns of texts such as `**.threshold=initialise`, in their order.

    Raises:
        UsageError: a text without "=", or two words for one pattern.
    """
    words: dict[str, str] = {}
    for text in texts:
        pattern, _, word = text.rpartition("=")
        if not pattern:
            raise UsageError(
                "not a policy", found=text, expected="a pattern and a word: **.threshold=derive"
            )
        if words.setdefault(pattern, word) != word:
            raise UsageError("two policies for one pattern", found=pattern)
    return words
