"""Our quantizers and modules against what Brevitas 0.13.4 computed; see `tests/data/brevitas`."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.brevitas_cases import build, describe, load, ours, outcome
from tests.compatibility.brevitas_compare import differences, inconsistencies, tolerance
from tests.compatibility.brevitas_quantizers import (
    UNSUPPORTED,
    calibrated_activation,
    module_names,
    quantized_activation,
    quantized_weight,
)

DATA = Path(__file__).parents[1] / "data" / "brevitas"
# The reference set does not name these in full.
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "q_int8_weight_per_tensor": ("Int8WeightPerTensorFloat", {}),
    "q_int8_weight_per_channel": ("Int8WeightPerChannelFloat", {}),
    "q_int4_weight_per_tensor": ("Int8WeightPerTensorFloat", {"bit_width": 4}),
    "q_uint8_shifted_weight": ("ShiftedUint8WeightPerTensorFloat", {}),
}
_MADE = {
    "wq": quantized_weight,
    "act": quantized_activation,
    "calibrated": calibrated_activation,
}


def _described(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case of the reference set with its quantizer and options as entries."""
    if "quantizer" in case or "run(" in case["expr"]:
        return case
    if case["id"] in _NAMED:
        name, options = _NAMED[case["id"]]
    else:
        found = re.match(r"\w+\((\w+), \w+, \*\*(\{.*?\})\)", case["expr"])
        assert found is not None, case["expr"]
        name, options = found[1], ast.literal_eval(found[2])
    return {**case, "quantizer": name, "options": options}


def _cases() -> dict[str, dict[str, Any]]:
    found = load(DATA / "reference.json") | load(DATA / "quantizers.json")
    mine = {
        n: c for n, c in found.items() if c["expr"].split("(")[0] in _MADE or "run(" in c["expr"]
    }
    mine = {n: _described(c) for n, c in mine.items()}
    return {n: c for n, c in mine.items() if c.get("quantizer") not in UNSUPPORTED}


CASES = _cases()
QUANTIZED = sorted(n for n, c in CASES.items() if "quantizer" in c)
POOLED = sorted(n for n, c in CASES.items() if "quantizer" not in c)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantizer(name: str) -> None:
    """A config quantizes to the values, scales and zero points of Brevitas' quantizer."""
    case, family = CASES[name], ours()
    [given] = case["inputs"].values()
    found = _MADE[case["expr"].split("(")[0]](case, build(given, family))
    assert differences(case["result"], describe(found, family)) == []
    assert inconsistencies(found, family) == []


@pytest.mark.parametrize("name", POOLED)
def test_pool(name: str) -> None:
    """A pool that truncates gives Brevitas' values and metadata, twice in a row too."""
    case, family = CASES[name], ours()
    found = outcome(case, family, module_names())
    assert differences(case["result"], describe(found, family), tolerance(case)) == []
    assert inconsistencies(found, family) == []
