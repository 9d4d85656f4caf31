"""Our quant tensors against what Brevitas 0.13.4 computed; see `tests/data/brevitas/make_cases.py`.

Where Brevitas is right we give the same bits; where it is not, what the case calls better.
Whatever comes out has metadata that fits its value.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.brevitas_cases import describe, load, ours, outcome
from tests.compatibility.brevitas_compare import differences, inconsistencies, tolerance

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "brevitas"
CORPUS = Path(os.environ.get("QCONFIG_CORPUS", ROOT.parent / "shared" / "corpus"))
# These need quantizers or modules: test_brevitas_quantizers.py has them.
MODULES = ("wq(", "act(", "run(")


def _cases() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    collection = CORPUS / "brevitas" / "reference.json"
    for path in (
        *(DATA / name for name in ("reference.json", "cases.json", "float_cases.json")),
        *([collection] if collection.exists() else []),
    ):
        for name, case in load(path).items():
            found.setdefault(name, case)
    better = {case["id"]: case["better"] for case in load(DATA / "better.json").values()}
    for name, case in found.items():
        if name in better:
            case["better"] = better[name]
    return found


CASES = {n: c for n, c in _cases().items() if not any(word in c["expr"] for word in MODULES)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_result(name: str) -> None:
    """A case gives Brevitas' result where that is right, and a better one where it is not."""
    case = CASES[name]
    want = case["result"] if case["verdict"] == "reference" else case.get("better", {})
    family = ours()
    found = outcome(case, family)
    assert differences(want, describe(found, family), tolerance(case)) == [], case.get("note")
    assert inconsistencies(found, family) == []


def test_the_cases_are_many() -> None:
    """The repository alone has cases of every class, of gradients and of errors."""
    texts = json.dumps([c["inputs"] for c in CASES.values()])
    for kind in ours().classes:
        assert f'"{kind}"' in texts
    assert sum("grad" in c for c in CASES.values()) >= 40
    assert sum("error" in c["result"] for c in CASES.values() if isinstance(c["result"], dict)) > 20
    assert len(CASES) > 1000
