from qconfig.rules.fused import split_groups
from qconfig.rules.tied import split_ties

QKV = [("q", "k", "v"), ("gate", "up")]


def test_whole_group_passes():
    """Siblings with one config are no problem, nor is a group of which a part is missing."""
    assert split_groups(QKV, ["l.0.q.weight", "l.0.k.weight"], ["w8", "w8"]) == []


def test_split_group():
    """A group that gets two configs is reported with both names."""
    (problem,) = split_groups(
        QKV, ["a.x.weight", "a.up.weight", "a.gate.weight"], [None, "w8", None]
    )
    assert str(problem) == (
        "a.gate.weight: /fused/1: fused with a.up.weight, but they get different configs\n"
        "  found: None\n"
        "  expected: 'w8', as a.up.weight\n"
        "  hint: let one rule match the whole group"
    )


def test_siblings_only():
    """Modules of other parents, other groups and other parameters are not compared."""
    names = ["l.0.q.weight", "l.1.q.weight", "l.0.up.weight", "l.0.k.bias", "q.weight", "w"]
    assert split_groups(QKV, names, ["a", "b", "c", "d", "e", "f"]) == []


def test_members_at_the_root():
    """Modules of the root are siblings."""
    assert len(split_groups(QKV, ["q.weight", "v.weight"], ["w8", None])) == 1


def test_tied_and_equal():
    """Tied names with one config pass, and names that are not there are passed over."""
    assert split_ties([("a", "b", "gone")], {"a": "w8", "b": "w8"}) == []


def test_tied_and_different():
    """Tied names with two configs are reported with both names."""
    (problem,) = split_ties([("emb", "head")], {"emb": None, "head": "w8"})
    assert str(problem) == (
        "head: tied to emb, but they get different configs\n"
        "  found: 'w8'\n"
        "  expected: None, as emb\n"
        "  hint: add a rule for both names, or skip both"
    )
