import pytest

from qconfig.rules.regex_tree import parse
from qconfig.rules.requirements import Piece, requirements
from qconfig.rules.segment_index import SegmentIndex, count_segments


def texts(pattern):
    """Return what is required, each piece as text with ^ and $ where it is bound."""

    def shown(piece):
        return ("^" if piece.starts else "") + piece.text + ("$" if piece.ends else "")

    return [[tuple(map(shown, p)) for p in r] for r in requirements(parse(pattern))]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"model\.layers\.\d+\.mlp", [[("^model$", "^layers$")], [("^mlp$",)]]),
        (r".*attn.*", [[("attn",)]]),
        (r".*_proj", [[("_proj$",)]]),
        (r"lay.*", [[("^lay",)]]),
        (r".*\.(q|k)_proj", [[("^k_proj$",), ("^q_proj$",)]]),
        (r"h\.1[01]\..*", [[("^h$", "^10$"), ("^h$", "^11$")]]),
        (r"a\.(?:b\.)?c", [[("^a$", "^c$"), ("^a$", "^b$", "^c$")]]),
        (r".*", []),
        (r"(a|.*)b", [[("b$",)]]),
        (r"(?i:abc)\.d", [[("^d$",)]]),
        (r"(?!x)ab", [[("^ab$",)]]),
        (r"(?:a|)\d*", []),
        ("", [[("^$",)]]),
    ],
)
def test_requirements(pattern, expected):
    """What every matching name contains is read from the tree."""
    assert texts(pattern) == expected


def test_many_alternatives_are_cut():
    """Products of alternatives beyond the limit are told apart, bounds kept where all agree."""
    numbers = "|".join(map(str, range(100)))
    first, second = texts(rf"(a|b)_p\.({numbers})\.w")
    assert first == [("^a_p$",), ("^b_p$",)]
    assert second[42] == ("^42$", "^w$")


def test_piece_fits():
    """A piece fits a segment that has its text where it must be."""
    segment = "q_proj"
    assert Piece("q_proj", starts=True, ends=True).fits(segment)
    assert Piece("q_", starts=True, ends=False).fits(segment)
    assert Piece("_proj", starts=False, ends=True).fits(segment)
    assert Piece("pro", starts=False, ends=False).fits(segment)
    assert not Piece("proj", starts=True, ends=False).fits(segment)


def test_index_uses_the_rarest():
    """A name meets only patterns whose rarest requirement it has, and those without any."""
    names = [f"layers.{i}.{p}_proj" for i in range(4) for p in "qk"]
    patterns = {3: r"re:layers\.2\..*_proj", 5: "re:.*", 7: "layers.*.v_proj"}
    index = SegmentIndex(patterns, count_segments(names), str)
    assert index.candidates(index.key("layers.2.q_proj")) == ("3", "5")
    assert index.candidates(index.extended(index.key("layers"), "1")) == ("5",)
