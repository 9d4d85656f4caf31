"""Patterns over fully qualified names: exact names, segment-wise globs, regular expressions."""

import re


def is_exact(match: str) -> bool:
    """Return whether `match` is a plain name, neither glob nor regular expression."""
    return not match.startswith("re:") and "*" not in match


def glob_to_regex(glob: str) -> str:
    """Return the regular expression of a glob: `*` stays within one segment, `**` crosses them."""
    parts = re.split(r"(\*\*|\*)", glob)
    return "".join({"**": ".*", "*": r"[^.]*"}.get(p, re.escape(p)) for p in parts)
