"""Make the files of this folder anew with Brevitas 0.13.4.

    python -m tests.data.brevitas.make_cases [REFERENCE.json]

`cases.json` (integers), `float_cases.json` (minifloats, groups) and `quantizers.json` hold what
Brevitas makes of the rows in the modules beside this one. With the reference
set of the collection as argument, `reference.json` is its copy without what can be derived, and
`better.json` says what is right where that set has a quirk or a defect. A row that claims to be a
reference must be consistent; the script stops at one that is not, so that no defect is copied.
"""

import ast
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.compatibility import brevitas_cases as cases
from tests.compatibility.brevitas_compare import inconsistencies
from tests.data.brevitas import float_group, int_arithmetic, int_pool, int_products, int_shapes
from tests.data.brevitas.better_rows import BETTER
from tests.data.brevitas.quantizer_rows import NAMES, quantizer_cases
from tests.data.brevitas.rows import Row

HERE = Path(__file__).parent
# What a quant tensor derives from its fields; not needed to build an input.
_DERIVED = {"int", "is_valid", "minifloat"}
# Training averages scales, and `set` recomputes nothing.
_MAY_BE_INVALID = {
    "add_at_bt",
    "sub_at_bt",
    "cat_at_bt_1",
    "set_scale",
    "set_zero_point",
    "float_set_scale",
}


def _input(value: Any, family: cases.Family) -> dict[str, Any]:
    described = cases.describe(value, family)
    return _minimal(described)


def _minimal(described: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in described.items() if k not in _DERIVED}
    if "value_storage" in kept:
        kept = {k: v for k, v in kept.items() if k not in ("value", "scale", "zero_point")}
    return kept


def _names(expr: str, pool: Mapping[str, Any]) -> list[str]:
    found = {n.id for n in ast.walk(ast.parse(expr, mode="eval")) if isinstance(n, ast.Name)}
    return sorted(found & set(pool))


def better(given: Any, pool: Mapping[str, Any], family: cases.Family) -> Any:
    """Return the expectation that `given` (see `Row.better`) stands for."""
    if isinstance(given, str):
        return _without_derived_of_empty(_value(given, pool, family))
    if isinstance(given, list):
        made = [better(each, pool, family) for each in given]
        return made[0] if len(made) == 1 else {"any_of": made}
    if isinstance(given, dict) and "values_of" in given:
        rest = {k: v for k, v in given.items() if k != "values_of"}
        return {"values": _value(given["values_of"], pool, family), **rest}
    if isinstance(given, dict):
        return {
            k: [better(each, pool, family) for each in v] if k in ("any_of", "items") else v
            for k, v in given.items()
        }
    return given


def _value(expr: str, pool: Mapping[str, Any], family: cases.Family) -> Any:
    scope = {"torch": torch, "F": cases.F, "T": torch.tensor, **family.classes, **pool}
    described = cases.describe(eval(expr, scope), family)  # noqa: S307  # rows of this folder
    if isinstance(described, dict) and described.get("type") == "Tensor":
        described.pop("type")
    return described


def _without_derived_of_empty(described: Any) -> Any:
    """Drop what Brevitas cannot say of an empty tensor."""
    if isinstance(described, dict) and described.get("value", {}).get("shape", [1]).count(0):
        return {k: v for k, v in described.items() if k not in _DERIVED}
    return described


def case_of(row: Row, pool: Mapping[str, Any], family: cases.Family) -> dict[str, Any]:
    """Return the case that `row` becomes."""
    case: dict[str, Any] = {"id": row.id, "verdict": row.verdict, "expr": row.expr}
    case["inputs"] = {n: n for n in _names(row.expr, pool)}
    if row.grad:
        case["grad"] = dict(row.grad)
    full = {**case, "inputs": {n: _input(pool[n], family) for n in case["inputs"]}}
    case["result"] = _without_derived_of_empty(cases.evaluate(full, family))
    if row.verdict != "reference" and isinstance(case["result"], dict):
        case["result"] = {k: v for k, v in case["result"].items() if k not in ("int", "minifloat")}
    if row.better is not None:
        case["better"] = better(row.better, pool, family)
    if row.note:
        case["note"] = row.note
    return case | dict(row.more)


def _doubts(row: Row, case: Mapping[str, Any], family: cases.Family) -> list[str]:
    if row.verdict != "reference" or row.grad or "error" in str(case["result"])[:12]:
        return []
    scope = {"torch": torch, "F": cases.F, "T": torch.tensor, **family.classes}
    built = {n: cases.build(d, family) for n, d in case["inputs"].items()}
    problems = inconsistencies(eval(row.expr, scope | built), family)  # noqa: S307
    if (
        isinstance(case["result"], dict)
        and case["result"].get("is_valid") is False
        and row.id not in _MAY_BE_INVALID
    ):
        problems.append("is_valid is False")
    return problems


def _table(rows: Sequence[Row], pool: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    family = cases.theirs()
    made, wrong = [], []
    inputs = {n: _input(v, family) for n, v in pool.items()}
    for row in rows:
        case = case_of(row, pool, family)
        full = {**case, "inputs": {n: inputs[n] for n in case["inputs"]}}
        problems = _doubts(row, full, family)
        if problems:
            wrong.append(f"{row.id}: {row.expr}: {problems}")
        made.append(case)
    if wrong:
        raise SystemExit("\n".join(["rows that are no reference:", *wrong]))
    used = {name for case in made for name in case["inputs"]}
    return {n: d for n, d in inputs.items() if n in used}, made


def _rounded(data: Any) -> Any:
    """Write numbers of 32 bits as short as they can be read back."""
    if isinstance(data, dict) and data.get("dtype") in (
        "torch.float32",
        "torch.bfloat16",
        "torch.float16",
    ):
        return {**data, "data": _short(data["data"])}
    if isinstance(data, dict):
        return {k: _rounded(v) for k, v in data.items()}
    return [_rounded(v) for v in data] if isinstance(data, list) else data


def _short(data: Any) -> Any:
    if isinstance(data, list):
        return [_short(v) for v in data]
    if not isinstance(data, float):
        return data
    if data.is_integer() and abs(data) < 2**24:
        return int(data)
    for digits in range(1, 10):
        candidate = float(f"{data:.{digits}g}")
        if torch.tensor(candidate, dtype=torch.float32).item() == data:
            return candidate
    return data


def _write(
    path: Path, meta: Mapping[str, Any], pool: Mapping[str, Any], made: Sequence[Any]
) -> None:
    dump = {"separators": (",", ":"), "allow_nan": False}
    tensors = ",\n".join(
        f"{json.dumps(n)}:{json.dumps(cases.shorten(_rounded(d)), **dump)}" for n, d in pool.items()
    )
    lines = ",\n".join(json.dumps(cases.shorten(_rounded(c)), **dump) for c in made)
    text = f'{{"meta":{json.dumps(meta)},\n"pool":{{\n{tensors}\n}},\n"cases":[\n{lines}\n]}}\n'
    path.write_text(text, "utf-8")
    print(f"{path.name}: {len(made)} cases, {len(text.encode()) // 1000} kB")  # noqa: T201


def _reference(source: Path) -> None:
    family = cases.theirs()
    document = json.loads(source.read_text("utf-8"))
    expectations = []
    for case in document["cases"]:
        if case["group"] == "autograd":
            continue
        given = BETTER.get(case["id"])
        if (given is None) != (case["verdict"] == "reference"):
            raise SystemExit(f"{case['id']} is a {case['verdict']}")
        if given is not None:
            pool = {n: cases.build(d, family) for n, d in case["inputs"].items()}
            expectations.append({"id": case["id"], "better": better(given, pool, family)})
    for case in document["cases"]:
        if case["group"] != "autograd":
            case["inputs"] = {n: _minimal(d) for n, d in case["inputs"].items()}
    _write(HERE / "reference.json", document["meta"], {}, document["cases"])
    _write(HERE / "better.json", {}, {}, expectations)


def main() -> None:
    """Write the files."""
    torch.manual_seed(0)
    tables = {
        "cases.json": ([*int_arithmetic.ROWS, *int_shapes.ROWS, *int_products.ROWS], int_pool.POOL),
        "float_cases.json": (float_group.ROWS, float_group.POOL),
    }
    meta = {"brevitas": "0.13.4", "torch": torch.__version__.partition("+")[0], "env": NAMES}
    for name, (rows, tensors) in tables.items():
        ids = [row.id for row in rows]
        twice = {i for i in ids if ids.count(i) > 1}
        if twice:
            raise SystemExit(f"ids given twice: {sorted(twice)}")
        pool, made = _table(rows, tensors)
        _write(HERE / name, meta, pool, made)
    _write(HERE / "quantizers.json", meta, {}, quantizer_cases())
    if len(sys.argv) > 1:
        _reference(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
