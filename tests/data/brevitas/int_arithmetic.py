"""Cases of arithmetic, concatenation and integers of `IntQuantTensor`."""

from itertools import product

from tests.data.brevitas.int_pool import DTYPES, WIDTHS
from tests.data.brevitas.rows import RAISES, Row, defect, only_values, quirk, values

_ONE_BIT = "the sum has more integers than the formula says"
_MIXED = "the width of a mixed sum does not hold its range"


def _limits(bits: int, sign: str) -> tuple[int, int]:
    signed = sign == "s"
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _needed(low: int, high: int, *, signed: bool) -> int:
    def holds(bits: int) -> bool:
        least, most = _limits(bits, "s" if signed else "u")
        return least <= low and high <= most

    return next(bits for bits in range(1, 40) if holds(bits))


def _of_widths() -> list[Row]:
    rows = []
    kinds = [(n, s) for n in WIDTHS for s in "su"]
    for (n, s), (m, r) in product(kinds, kinds):
        if (n, m) not in {
            (1, 1),
            (2, 2),
            (4, 4),
            (3, 5),
            (4, 8),
            (8, 8),
            (12, 7),
            (16, 9),
            (2, 16),
        }:
            continue
        if min(n, m) == 1 and n != m:
            continue
        (low, high), (low2, high2) = _limits(n, s), _limits(m, r)
        signed = "s" in (s, r)
        added = (high + high2 - low - low2 - 1).bit_length()
        need = _needed(low + low2, high + high2, signed=signed)
        x, y = f"n{n}{s}", f"n{m}{r}"
        holds = added >= need
        enough = {**values(f"{x}.value + {y}.value"), "bit_width_at_least": need}
        rows.append(
            Row(f"add_{x}_{y}", f"{x} + {y}")
            if holds
            else defect(f"add_{x}_{y}", f"{x} + {y}", enough, _MIXED if n != 1 else _ONE_BIT)
        )
        rows.append(Row(f"mul_{x}_{y}", f"{x} * {y}"))
    rows += [Row(f"int_{k}", f"n{k}.int()") for k in ("2s", "8u", "8s", "9s", "9u", "16u")]
    rows += [
        Row(f"int_float_{k}", f"n{k}.int(float_datatype=True)") for k in ("4s", "8u", "9s", "16u")
    ]
    for n in WIDTHS[1:]:
        rows.append(Row(f"neg_n{n}u", f"-n{n}u"))
        rows.append(Row(f"abs_n{n}u", f"abs(n{n}u)"))
        sub = f"sub_n{n}u_n{n}u"
        rows.append(Row(sub, f"n{n}u - n{n}u"))
        for op, name, plain in (("-{}", "neg", "-{}.value"), ("abs({})", "abs", "{}.value.abs()")):
            x = f"n{n}s"
            note = "the least integer has no opposite in this width"
            rows.append(quirk(f"{name}_{x}", op.format(x), values(plain.format(x)), note))
    return rows


def _pairs() -> list[Row]:
    rows = [
        Row(f"{name}_{x}_{y}", f"{x} {sign} {y}")
        for name, sign in (("add", "+"), ("sub", "-"))
        for x, y in (
            ("a", "d4"),
            ("d4", "a"),
            ("u", "v"),
            ("u4", "v"),
            ("p0", "p0b"),
            ("p1", "p1"),
            ("a", "r1"),
            ("at", "bt"),
            ("at", "b"),
            ("a", "lb"),
            ("lb", "lb"),
            ("lb1", "a"),
            ("s0", "s0"),
            ("s1", "s0"),
            ("a", "s1"),
            ("pv", "pv"),
        )
    ]
    rows += [Row(f"add_{x}_{y}", f"{x} + {y}") for x, y in (("z", "z3"), ("z", "v"), ("pz", "pz"))]
    rows += [
        defect(f"sub_{x}_{y}", f"{x} - {y}", values(f"{x}.value - {y}.value"), "zero point of -b")
        for x, y in (("z", "z3"), ("zs", "zs"), ("zs4", "zs4"), ("a", "r2"), ("pz", "pz"))
    ]
    rows += [
        defect(
            f"add_{x}_{y}",
            f"{x} + {y}",
            {
                "type": "IntQuantTensor",
                **values(f"{x}.value + {y}.value"),
                "bit_width_at_least": 10,
                "signed": True,
                "is_valid": True,
            },
            _MIXED,
        )
        for x, y in (("a", "u"), ("u", "a"), ("d4", "u"), ("zs", "z"))
    ]
    rows += [Row(f"add_{x}_{y}_raises", f"{x} + {y}") for x, y in (("a", "qt"), ("p0", "p0c"))]
    rows += [Row(f"add_method_{x}", f"{x}.add({y})") for x, y in (("a", "b"), ("u", "v"))]
    rows += [
        Row(f"mul_{x}_{y}", f"{x} * {y}")
        for x, y in (
            ("a", "qt"),
            ("d4", "u"),
            ("p0", "p0c"),
            ("p0", "p1"),
            ("at", "b"),
            ("lb", "a"),
            ("s0", "a"),
            ("e0", "e0"),
            ("r1", "a"),
            ("pv", "p0"),
            ("a", "z"),
            ("zs", "zs"),
        )
    ]
    div = "the quotient is hardly ever on its grid"
    rows += [
        quirk(f"div_{x}_{y}", f"{x} / {y}", values(f"{x}.value / {y}.value"), div)
        for x, y in (("a", "b"), ("u", "v"), ("d4", "v"), ("p0", "p0b"), ("at", "b"), ("s0", "b"))
    ]
    rows += [Row("div_a_z", "a / z"), Row("div_zs_a", "zs / a")]
    for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*")):
        rows.append(quirk(f"torch_{op}", f"torch.{op}(a, b)", f"a {sign} b", "the function too"))
        rows.append(quirk(f"torch_{op}_unsigned", f"torch.{op}(u, v)", f"u {sign} v"))
    rows.append(quirk("torch_div", "torch.div(a, b)", values("a.value / b.value")))
    return rows


def _with_others() -> list[Row]:
    note = "no second quant tensor: the sum has no grid of its own"
    rows = [
        quirk(
            f"{name}_{x}_{other}",
            e.format(x=x, o=o),
            only_values(e.format(x=f"{x}.value", o=o)),
            note,
        )
        for x in ("a", "z", "p0")
        for name, e, others in (
            ("plus", "{x} + {o}", {"number": "1.5", "tensor": "t", "row": "row"}),
            ("minus", "{x} - {o}", {"number": "0.5", "tensor": "t"}),
            ("times", "{x} * {o}", {"number": "2.0", "tensor": "t"}),
            ("over", "{x} / {o}", {"number": "4.0", "tensor": "t"}),
            ("after_plus", "{o} + {x}", {"number": "1.5", "tensor": "t"}),
        )
        for other, o in others.items()
    ]
    rows += [
        defect(
            f"{name}_a_after_number",
            e.format("a"),
            only_values(e.format("a.value")),
            "no such method",
        )
        for name, e in (("minus", "1.0 - {}"), ("times", "2.0 * {}"), ("over", "1.0 / {}"))
    ]
    rows.append(
        defect("times_integer_after", "3 * a", only_values("3 * a.value"), "repeats a tuple")
    )
    rows += [
        defect(f"compare_{n}", f"a {s} b", values(f"a.value {s} b.value"), "compares tuples")
        for n, s in (("eq", "=="), ("lt", "<"), ("ge", ">="), ("ne", "!="))
    ]
    rows += [defect("length", "len(a)", {"any_of": [2]}, "number of fields")]
    rows += [
        Row(f"plain_{n}", e)
        for n, e in {
            "sum": "torch.sum(a)",
            "mean": "torch.mean(a)",
            "stack": "torch.stack([a, b])",
            "exp": "torch.exp(a)",
            "where": "torch.where(t > 0, a, b)",
            "softmax": "F.softmax(a, -1)",
            "sigmoid": "torch.sigmoid(a)",
            "gelu": "F.gelu(a)",
            "max": "torch.max(a)",
            "layer_norm": "F.layer_norm(a, (2,))",
            "einsum": "torch.einsum('ij,jk->ik', a, b)",
            "mix_add": "torch.add(a, t)",
            "mse": "F.mse_loss(a, b)",
            "clamp": "torch.clamp(a, 0, 1)",
            "cat_with_plain": "torch.cat([a, t], dim=0)",
            "bmm": "torch.bmm(c3, c3.transpose(1, 2))",
        }.items()
    ]
    return rows


def _unary() -> list[Row]:
    exact = "zero point: the value must be exactly the opposite (the modulus)"
    rows = [
        defect(f"abs_{x}", f"abs({x})", values(f"{x}.value.abs()"), exact)
        for x in ("z", "zs", "zs4", "r2", "s1z")
    ]
    rows += [
        defect(f"neg_{x}", f"-{x}", values(f"-{x}.value"), exact)
        for x in ("zs", "zs4", "r2", "s1z")
    ]
    rows += [
        defect(f"neg_{x}", f"-{x}", values(f"-{x}.value"), "zero point of an unsigned tensor kept")
        for x in ("z", "pz", "pz0")
    ]
    rows += [defect(f"abs_{x}", f"abs({x})", values(f"{x}.value.abs()"), exact) for x in ("pz",)]
    rows += [
        quirk("neg_d4", "-d4", values("-d4.value")),
        quirk("abs_d4", "abs(d4)", values("d4.value.abs()")),
    ]
    for x in ("p0", "p1", "at", "lb", "s0", "s1", "vec"):
        rows += [Row(f"neg_{x}", f"-{x}"), Row(f"abs_{x}", f"abs({x})"), Row(f"pos_{x}", f"+{x}")]
    empty = "the maximum of nothing"
    rows += [
        quirk(f"{n}_empty", e.format("e0"), values(e.format("e0.value")), empty)
        for n, e in (("neg", "-{}"), ("abs", "abs({})"), ("sub", "{0} - {0}"))
    ]
    rows += [Row("pos_empty", "+e0"), Row("add_empty", "e0 + e0")]
    rows.append(quirk("torch_neg", "torch.neg(a)", "-a", "the function too"))
    rows.append(quirk("torch_abs", "torch.abs(a)", "abs(a)", "the function too"))
    for d in DTYPES:
        rows += [
            Row(f"add_{d}", f"a_{d} + b_{d}"),
            Row(f"mul_{d}", f"a_{d} * b_{d}"),
            Row(f"sub_{d}", f"a_{d} - b_{d}"),
            Row(f"neg_{d}", f"-a_{d}"),
            Row(f"int_{d}", f"a_{d}.int()"),
            Row(f"valid_{d}", f"a_{d}.is_valid"),
            Row(f"channel_{d}", f"p_{d} + p_{d}"),
            Row(f"transpose_{d}", f"p_{d}.transpose(0, 1)"),
            Row(f"relu_{d}", f"F.relu(a_{d})"),
            Row(f"linear_{d}", f"F.linear(a_{d}, b_{d})"),
            Row(f"int_float_{d}", f"a_{d}.int(float_datatype=True)"),
        ]
    return rows


def _joined() -> list[Row]:
    cat = "torch.cat([{0}, {1}], dim={2})"
    rows = [
        Row(f"cat_{x}_{y}_{n}", cat.format(x, y, n))
        for x, y, n in (
            ("a", "b", 0),
            ("a", "b", 1),
            ("a", "b", -1),
            ("u", "v", 0),
            ("z", "z", 1),
            ("at", "at", 0),
            ("at", "bt", 1),
            ("e0", "e0", 0),
            ("s1", "s1", 0),
            ("a", "qt", 0),
            ("a", "d4", 0),
            ("a", "u", 0),
            ("z", "z3", 0),
            ("lb", "lb", 1),
        )
    ]
    rows += [
        Row("cat_one", "torch.cat([a], dim=0)"),
        Row("cat_three", "torch.cat([a, b, a], dim=1)"),
    ]
    rows += [
        Row("cat_tuple", "torch.cat((a, b), 1)"),
        Row("cat_across_channels", cat.format("p0", "p0", 1)),
    ]
    rows.append(
        defect("cat_no_dim", "torch.cat([a, b])", "torch.cat([a, b], dim=0)", "dim is needed")
    )
    full = "IntQuantTensor({v}, {s}, T(0.), T(8.), True, False)"
    joined = {
        "s": "torch.cat([{}.scale, {}.scale], {})",
        "v": "torch.cat([{}.value, {}.value], {})",
    }
    note = "scales are of channels and have to be joined with them"
    for x, y, n in (("p0", "p0b", 0), ("p0", "p0b", -2), ("p1", "p1", 1)):
        better = full.format(**{k: e.format(x, y, n) for k, e in joined.items()})
        rows.append(defect(f"cat_channels_{x}_{n}", cat.format(x, y, n), better, note))
    rows.append(
        quirk(
            "cat_channels_differ",
            cat.format("p0", "p0c", 0),
            {"any_of": [values("torch.cat([p0.value, p0c.value], 0)"), RAISES]},
            "scales that differ could be joined too",
        )
    )
    rows.append(
        defect(
            "cat_out",
            "torch.cat([a, b], dim=0, out=torch.empty(4, 2))",
            {"any_of": [values("torch.cat([a.value, b.value])"), RAISES]},
        )
    )
    rows += [
        quirk(
            f"matmul_{n}",
            e,
            [plain.replace("F.linear", "F.linear"), values(plain)],
            "an int product",
        )
        for n, e, plain in (
            ("function", "torch.matmul(a, b)", "F.linear(a, b.transpose(0, 1))"),
            ("mm", "torch.mm(a, b)", "F.linear(a, b.transpose(0, 1))"),
        )
    ]
    rows.append(
        defect(
            "matmul_operator",
            "a @ b",
            ["F.linear(a, b.transpose(0, 1))", values("a.value @ b.value")],
            "no operator",
        )
    )
    rows.append(
        quirk("matmul_batched", "torch.matmul(c3, d4)", values("torch.matmul(c3.value, d4.value)"))
    )
    rows.append(Row("matmul_plain", "torch.matmul(a, t)"))
    return rows


ROWS = [*_of_widths(), *_pairs(), *_with_others(), *_unary(), *_joined()]
