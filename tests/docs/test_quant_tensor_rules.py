"""docs/quant-tensor-rules.md says what the code does: its tables are made from the rules."""

import pytest

from qconfig.tensors.quant_tensor import FloatQuantTensor, GroupwiseIntQuantTensor, IntQuantTensor
from tests.docs.quant_tensor_rules import PAGE, TABLES, marked

TEXT = PAGE.read_text(encoding="utf-8")
CLASSES = [IntQuantTensor, FloatQuantTensor, GroupwiseIntQuantTensor]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_the_code_runs(name):
    """A table is made from the rules: python -m tests.docs.quant_tensor_rules."""
    found = marked(name, TEXT)
    assert found is not None
    assert found[1].splitlines() == list(TABLES[name]())


@pytest.mark.parametrize("cls", CLASSES)
def test_an_operation_has_one_rule(cls):
    """No function is in two rules of a class, of which only one could run."""
    functions = [function for rule in cls.rules.rules for function in set(rule.functions)]
    assert len(functions) == len(set(functions))


@pytest.mark.parametrize("cls", CLASSES)
def test_a_rule_says_what_becomes_of_fields_or_that_it_is_plain(cls):
    """Every rule has words: for scale, zero point, widths and sign, or for what comes instead."""
    for rule in cls.rules.rules:
        bits = rule.shown("bit_width") or rule.shown("exponent_bit_width")
        words = [bits, *(rule.shown(name) for name in ("scale", "zero_point", "signed"))]
        assert all(words) or (not any(words) and rule.otherwise)


@pytest.mark.parametrize("cls", CLASSES)
def test_families_have_rules_for_the_same_operations(cls):
    """What has a rule for integers is told of for every family."""
    assert IntQuantTensor.rules.by_function.keys() <= cls.rules.by_function.keys()


def test_the_page_is_linked():
    """The index lists the page."""
    assert f"\n{PAGE.stem}\n" in (PAGE.parent / "index.md").read_text(encoding="utf-8")
