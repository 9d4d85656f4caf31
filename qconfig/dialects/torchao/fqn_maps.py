"""torchao's maps from names to configs, whose patterns meant four things in four releases.

| releases | patterns |
|---|---|
| 0.11 to 0.13 | names like all others, which no module has: without effect |
| 0.14 to 0.16 | applied; what a pattern skips still got `_default` |
| 0.15 and later | applied to parameters too: biases that match are quantized, which fails |
| 0.17 and later | what a pattern skips is skipped |

What torchao documents is taken: all names that match, and a skip is a skip. Where the writer is
known, what that release did is taken.
"""

from collections.abc import Mapping
from typing import Any

from qconfig.checkpoints.writer import Writer
from qconfig.codec.strict_json import dumps_compact

_DEFAULT = "_default"
_IGNORED, _FIXED, _PARAMETERS = (0, 14), (0, 17), (0, 15)

Notes = list[tuple[str, str]]


def effective_map(
    entries: Mapping[str, Any], writer: Writer | None
) -> tuple[dict[str, Any], Notes]:
    """Return the entries that count, and what to tell, by key; "" is the map as a whole.

    Args:
        entries: the map as it stands in the document, in its order.
        writer: who wrote it, if that is known.
    """
    patterns = [key for key in entries if key.startswith("re:")]
    release = writer.release if writer is not None and writer.library == "torchao" else None
    notes: Notes = []
    dropped: set[str] = set()
    has_default = entries.get(_DEFAULT) is not None
    if release is not None and release < _IGNORED:
        notes += [(key, f"{writer} ignored patterns: the rule is left out") for key in patterns]
        dropped.update(patterns)
    elif release is not None and release < _FIXED and has_default:
        skips = [key for key in patterns if entries[key] is None]
        notes += [
            (key, f"{writer} gave _default to what this pattern skips: the rule is left out")
            for key in skips
        ]
        dropped.update(skips)
    elif patterns and release is None:
        notes.append(("", _AMBIGUOUS))
    if patterns and (release is None or release >= _PARAMETERS):
        notes.append(("", _PARAMETERS_TOO))
    kept = {key: value for key, value in entries.items() if key not in dropped}
    if _may_have_lost_order(kept):
        notes.append(("", _SORTED))
    return kept, notes


_AMBIGUOUS = (
    "patterns had no effect in torchao up to 0.13, and up to 0.16 what they skip still got "
    "_default; here they count as documented. The release that wrote this can be named, such as "
    "torchao==0.13"
)
_PARAMETERS_TOO = (
    "from 0.15 on torchao applies patterns to every parameter they match, and fails at biases; "
    "here they reach weights"
)
_SORTED = (
    "the keys are in alphabetical order, as transformers writes them: which of two patterns went "
    "first may be lost"
)


def _may_have_lost_order(entries: Mapping[str, Any]) -> bool:
    """Return whether keys are sorted, and patterns lead to different configs."""
    texts = {dumps_compact(value) for key, value in entries.items() if key.startswith("re:")}
    return len(texts) > 1 and list(entries) == sorted(entries)
