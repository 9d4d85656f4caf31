"""Cases of `FloatQuantTensor` and of the two groupwise classes."""

from typing import Any

import torch

from tests.data.brevitas.rows import (
    FORMATS,
    LARGEST,
    RAISES,
    Row,
    defect,
    fq,
    gf,
    gi,
    numbered,
    quirk,
    values,
)

# What each format holds: 0, its least subnormal, 1, the largest.
_LEAST = {n: 2.0 ** (1 - b - m) for n, (_, m, b, _, _) in FORMATS.items()}
_DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}

POOL: dict[str, Any] = {
    "t": torch.tensor([[0.25, 1.0], [-1.0, 3.0]]),
    "ids": torch.tensor([[1, 0], [2, 2]]),
    "i": gi([[[1, -2], [3, 4]], [[5, -6], [7, 0]]], [[[1.0], [0.5]], [[0.25], [2.0]]], 1, (2, 4)),
    "ip": gi([[[1, 2], [3, 0]], [[5, 6], [7, 0]]], [[[1.0], [0.5]], [[0.25], [2.0]]], 1, (2, 3)),
    "in1": gi([[[1, 2], [3, 0]], [[5, 6], [7, 0]]], [[[1.0], [0.5]], [[0.25], [2.0]]], -1, (2, 3)),
    "i0": gi(numbered((2, 2, 3)), [[[1.0, 0.5, 2.0]], [[0.25, 1.0, 1.0]]], 0, (4, 3)),
    "i0p": gi(numbered((2, 2, 3)), [[[1.0, 0.5, 2.0]], [[0.25, 1.0, 1.0]]], 0, (3, 3)),
    "iz": gi(
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        [[[1.0], [0.5]], [[0.25], [2.0]]],
        1,
        (2, 4),
        [[[1.0], [2.0]], [[0.0], [3.0]]],
        signed=False,
    ),
    "iu": gi([[[1, 2], [3, 15]]], [[[1.0], [0.5]]], 1, (1, 4), bits=4.0, signed=False),
    "i4": gi(numbered((1, 2, 2, 2, 2)), 0.5, 1, (1, 4, 2, 2)),
    "i3n": gi(numbered((2, 2, 2, 3)), [[[[1.0, 0.5, 2.0]], [[0.25, 1.0, 1.0]]]] * 2, -2, (2, 4, 3)),
    "id": gi(numbered((2, 1, 4)), [[[1.0]], [[0.5]]], 1, (2, 4), dtype=torch.bfloat16),
    "g": gf(
        [[[1.0, -0.5], [3.0, 4.0]], [[6.0, -1.5], [0.5, 0.0]]],
        "e2m1",
        [[[1.0], [0.5]], [[0.25], [2.0]]],
        1,
        (2, 4),
    ),
    "gp": gf(
        [[[1.0, -0.5], [3.0, 0.0]], [[6.0, -1.5], [0.5, 0.0]]],
        "e2m1",
        [[[1.0], [0.5]], [[0.25], [2.0]]],
        -1,
        (2, 3),
    ),
    "g8": gf([[[448.0, 0.5], [1.75, -240.0]]], "e4m3", [[[1.0], [0.5]]], 1, (1, 4)),
    "g5": gf([[[57344.0, 0.5], [1.75, -1.0]]], "e5m2", [[[1.0], [0.5]]], 1, (1, 4)),
    "g0": gf([[[1.0, -0.5, 2.0], [3.0, 4.0, 6.0]]], "e2m1", [[[1.0, 0.5, 2.0]]], 0, (2, 3)),
}
for _n in FORMATS:
    _v = [[0.0, _LEAST[_n]], [-1.0, LARGEST[_n]]]
    POOL[f"x_{_n}"] = fq(_v, _n)
    POOL[f"y_{_n}"] = fq([[1.0, -1.0], [1.5, 2.0]], _n)
    POOL[f"s_{_n}"] = fq(_v, _n, [[0.5], [0.125]])
for _n, _dtype in _DTYPES.items():
    POOL[f"x_{_n}"] = fq([[0.0, 0.5], [-1.0, 448.0]], "e4m3", dtype=_dtype)
POOL |= {
    "pos": fq([[1.0, 2.0]], "e4m3", signed=False),
    "ft": fq([[1.0, -2.0], [0.5, 4.0]], "e4m3", training=True),
    "fi": fq([[1.0, -2.0], [0.5, 4.0]], "e5m2", saturating=False),
    "f0": fq(1.5, "e4m3"),
    "fe": fq(torch.zeros(0, 2).tolist(), "e4m3"),
    "fimg": fq([[[[1.0, -2.0], [0.5, 4.0]]]], "e4m3", [[[[0.5]]]]),
    "fimg2": fq(
        [[[[1.0, -2.0], [0.5, 4.0]], [[1.0, 3.0], [0.5, 2.0]]]], "e4m3", [[[[0.5]], [[0.25]]]]
    ),
    "femb": fq([[1.0, -2.0], [0.5, 4.0], [3.0, 6.0]], "e4m3"),
    "off": fq([[1.07, 2.0]], "e4m3"),
    "over": fq([[512.0, 12.0]], "e4m3"),
    "over4": fq([[8.0, -12.0]], "e2m1"),
}


def _floats() -> list[Row]:
    rows = []
    for n in FORMATS:
        x, y = f"x_{n}", f"y_{n}"
        rows += [
            Row(f"float_{n}", x),
            Row(f"float_{n}_channels", f"s_{n}"),
            Row(f"float_{n}_minifloat", f"{x}.minifloat()"),
            Row(f"float_{n}_int", f"s_{n}.int()"),
            quirk(f"float_{n}_valid", f"{x}.is_valid", {"any_of": [True]}, "a tensor"),
            Row(f"float_{n}_add", f"{x} + {y}"),
            Row(f"float_{n}_mul", f"{x} * {y}"),
            Row(f"float_{n}_sub", f"{x} - {y}"),
            Row(f"float_{n}_neg", f"-{x}"),
            Row(f"float_{n}_neg_channels", f"-s_{n}"),
            Row(f"float_{n}_abs", f"abs({x})"),
            Row(f"float_{n}_relu", f"F.relu({x})"),
            Row(f"float_{n}_linear", f"F.linear({x}, {y})"),
            Row(f"float_{n}_transpose", f"s_{n}.transpose(0, 1)"),
        ]
        e, m, b, inf, nan = FORMATS[n]
        better = (
            f"FloatQuantTensor(torch.cat([{x}.value, {y}.value]), T(1.), T(0.), T({e}), T({m}), "
            f"T({b}), True, {inf}, {nan}, True, False)"
        )
        cat = f"torch.cat([{x}, {y}], dim=0)"
        rows.append(
            Row(f"float_{n}_cat", cat)
            if inf
            else defect(f"float_{n}_cat", cat, better, "set(None)")
        )
    rows += [
        Row(f"float_{n}", e)
        for n, e in {
            "view": "x_e4m3.view(-1)",
            "reshape": "x_e4m3.reshape(4, 1)",
            "flatten": "torch.flatten(x_e5m2)",
            "permute": "s_e4m3.permute(1, 0)",
            "transpose_channels": "torch.transpose(s_e4m3, 0, 1)",
            "max_pool": "F.max_pool2d(fimg, 2)",
            "max_pool_channels": "F.max_pool2d(fimg2, 2)",
            "pad": "F.pad(x_e4m3, (1, 0))",
            "nearest": "F.interpolate(fimg2, scale_factor=2, mode='nearest')",
            "bilinear": "F.interpolate(fimg2, scale_factor=2, mode='bilinear')",
            "mean_pool": "F.avg_pool2d(fimg, 2, 2, 0, False, True, None)",
            "dropout": "F.dropout(x_e4m3, 0.5, False)",
            "adaptive_mean": "F.adaptive_avg_pool2d(fimg2, 1)",
            "embedding": "F.embedding(ids, femb)",
            "conv": "F.conv2d(fimg, fimg)",
            "matmul": "torch.matmul(x_e4m3, y_e4m3)",
            "number": "x_e4m3 + 1.0",
            "plain": "x_e4m3 * t",
            "plain_first": "t + x_e4m3",
            "softmax": "F.softmax(y_e4m3, -1)",
            "div": "y_e4m3 / y_e5m2",
            "two_formats": "y_e4m3 + y_e5m2",
            "detach": "s_e4m3.detach()",
            "contiguous": "s_e4m3.contiguous()",
            "cpu": "ft.cpu()",
            "neg_unsigned": "-pos",
            "abs_unsigned": "abs(pos)",
            "training": "-ft",
            "scalar": "-f0",
            "unsaturated": "fi",
            "unsaturated_neg": "-fi",
            "off_grid": "off.minifloat()",
            "minifloat_channels": "s_e5m2.minifloat()",
            "set_scale": "x_e4m3.set(scale=T(2.))",
            "f16": "x_f16",
            "bf16": "x_bf16",
            "f64": "x_f64",
            "f16_neg": "-x_f16",
            "bf16_relu": "F.relu(x_bf16)",
            "cat_different": "torch.cat([y_e5m2, y_e2m1], dim=0)",
            "cat_scales": "torch.cat([x_e5m2, s_e5m2], dim=0)",
            "shape": "[list(fimg.shape), fimg.dim()]",
            "stack": "torch.stack([x_e4m3, y_e4m3])",
        }.items()
    ]
    late = "out of range, yet on the grid"
    rows += [
        defect("float_over_valid", "over.is_valid", {"any_of": [False]}, late),
        defect("float_over4_valid", "over4.is_valid", {"any_of": [False]}, late),
        defect("float_over4_minifloat", "over4.minifloat()", RAISES, late),
        quirk("float_off_valid", "off.is_valid", {"any_of": [False]}, "a tensor"),
        Row("float_cat_exponents", "torch.cat([y_e5m2, y_e4m3], dim=0)"),
        defect(
            "float_cat_fnuz",
            "torch.cat([y_e4m3, y_e4m3fnuz], dim=0)",
            {
                "any_of": [
                    RAISES,
                    {"type": "Tensor", **values("torch.cat([y_e4m3.value, y_e4m3fnuz.value])")},
                ]
            },
            "biases differ",
        ),
        defect("float_dtype", "x_e4m3.dtype", "'torch.float32'", "no dtype"),
        defect(
            "float_index",
            "s_e4m3[0]",
            "FloatQuantTensor(s_e4m3.value[0], s_e4m3.scale[0], T(0.), T(4.), "
            "T(3.), T(7.), True, None, ('111',), True, False)",
            "a tuple's index",
        ),
        defect(
            "float_index_slice",
            "s_e4m3[0:1]",
            "FloatQuantTensor(s_e4m3.value[0:1], s_e4m3.scale[0:1], T(0.), "
            "T(4.), T(3.), T(7.), True, None, ('111',), True, False)",
            "a tuple's index",
        ),
        defect(
            "float_reshape_channels",
            "s_e4m3.reshape(-1)",
            values("s_e4m3.value.reshape(-1)"),
            "misaligned",
        ),
        defect("float_clone", "s_e4m3.clone()", "s_e4m3", "no such method"),
        defect(
            "float_to_half",
            "s_e2m1.to(torch.float16)",
            {
                "type": "FloatQuantTensor",
                "signed": True,
                "training": False,
                "saturating": True,
                **values("s_e2m1.value.half()"),
            },
            "flags become numbers",
        ),
        Row("float_empty", "-fe", "quirk", values("-fe.value")),
    ]
    rows += [
        Row(f"gradient_float_{n}", e, grad={"ft": ["value", "scale"]})
        for n, e in {
            "value": "ft.value.sum()",
            "add": "(ft + t).sum()",
            "neg": "(-ft).value.square().sum()",
            "minifloat": "ft.minifloat().sum()",
            "relu": "F.relu(ft).value.sum()",
        }.items()
    ]
    return rows


def _groups() -> list[Row]:
    rows = []
    for x in (
        "i",
        "ip",
        "in1",
        "i0",
        "i0p",
        "iz",
        "iu",
        "i4",
        "i3n",
        "id",
        "g",
        "gp",
        "g8",
        "g5",
        "g0",
    ):
        kind = "group_float" if x[0] == "g" else "group_int"
        rows += [
            Row(f"{kind}_{x}", x),
            Row(f"{kind}_{x}_add", f"{x} + {x}"),
            Row(f"{kind}_{x}_shape", f"list({x}.shape)"),
            Row(f"{kind}_{x}_transpose", f"{x}.transpose(0, 1)"),
        ]
        if x not in ("ip", "in1", "iz", "i0p", "id", "gp", "g0", "g8"):
            continue
        rows += [
            Row(f"{kind}_{x}_mul", f"{x} * {x}"),
            Row(f"{kind}_{x}_number", f"{x} * 2.0"),
            Row(f"{kind}_{x}_cat", f"torch.cat([{x}, {x}], dim=0)"),
            Row(f"{kind}_{x}_detach", f"{x}.detach()"),
        ]
        view = Row if x in ("g", "g8", "g5") else defect
        for n, op in (
            ("view", ".view(-1)"),
            ("reshape", ".reshape(-1)"),
            ("flatten", ".flatten()"),
        ):
            name = f"{kind}_{x}_{n}"
            flat = {"type": "Tensor", **values(f"{x}.value.reshape(-1)")}
            rows.append(
                Row(name, x + op)
                if view is Row
                else defect(
                    name,
                    x + op,
                    {"any_of": [flat, RAISES] if n == "view" else [flat]},
                    "set(value=)",
                )
            )
        rows += [
            defect(f"{kind}_{x}_neg", f"-{x}", values(f"-{x}.value"), "fields by position"),
            defect(
                f"{kind}_{x}_sub",
                f"{x} - {x}",
                {"type": "Tensor", **values(f"{x}.value - {x}.value")},
            ),
            defect(
                f"{kind}_{x}_abs", f"abs({x})", values(f"{x}.value.abs()"), "fields by position"
            ),
            defect(
                f"{kind}_{x}_relu", f"F.relu({x})", values(f"F.relu({x}.value)"), "set(value=...)"
            ),
            defect(f"{kind}_{x}_row", f"{x}[0]", values(f"{x}.value[0]"), "a tuple's index"),
            defect(f"{kind}_{x}_slice", f"{x}[0:1]", values(f"{x}.value[0:1]"), "a tuple's index"),
            defect(
                f"{kind}_{x}_columns", f"{x}[:, 1:]", values(f"{x}.value[:, 1:]"), "a tuple's index"
            ),
            defect(f"{kind}_{x}_clone", f"{x}.clone()", x, "no such method"),
        ]
    rows += [
        Row(f"group_{n}", e)
        for n, e in {
            "int_matmul": "torch.matmul(i, i0)",
            "float_matmul": "torch.matmul(g, i0)",
            "float_linear": "F.linear(g, g)",
            "int_linear": "F.linear(i, i)",
            "int_linear_mixed": "F.linear(i, g)",
            "float_div": "g0 / (g0 + 1.0)",
            "int_plain": "i + i.value",
            "int_plain_first": "i.value * i",
            "int_permute": "i3n.permute(2, 0, 1)",
            "int_flatten_some": "torch.sum(i3n, 1)",
            "float_softmax": "F.softmax(g, -1)",
            "float_minifloat": "g.minifloat()",
            "float_minifloat_padded": "gp.minifloat()",
            "int_int": "iz.int()",
            "int_valid": "iz.is_valid",
            "int_int_padded": "i0p.int()",
            "int_cpu": "in1.cpu()",
            "float_cpu": "gp.cpu()",
            "float_stack": "torch.stack([g, g])",
            "int_mean": "torch.mean(i, 0)",
            "float_mean_pool": "F.avg_pool2d(i4, 2, 2, 0, False, True, None)",
            "int_contiguous": "ip.contiguous()",
        }.items()
    ]
    rows += [
        defect(
            "group_int_pad", "F.pad(i, (0, 1))", values("F.pad(i.value, (0, 1))"), "set(value=...)"
        ),
        defect(
            "group_int_max_pool",
            "F.max_pool2d(i4, 2)",
            values("F.max_pool2d(i4.value, 2)"),
            "set(value=...)",
        ),
        defect(
            "group_float_dropout", "F.dropout(g, 0.5, False)", values("g.value"), "set(value=...)"
        ),
        defect(
            "group_int_to_half",
            "i.to(torch.float16)",
            {
                "type": "GroupwiseIntQuantTensor",
                "signed": True,
                "training": False,
                "dequant_shape": [2, 4],
                "group_dim": 1,
                **values("i.value.half()"),
            },
            "flags",
        ),
        Row("gradient_group_int", "i.value.square().sum()", grad={"i": ["value"]}),
        Row(
            "gradient_group_int_codes",
            "i.int(float_datatype=True).sum()",
            grad={"i": ["value", "scale"]},
        ),
        Row("gradient_group_padded", "(ip * 2.0).sum()", grad={"ip": ["value"]}),
        Row("gradient_group_float", "(g + g).square().sum()", grad={"g": ["value"]}),
    ]
    return rows


ROWS = [*_floats(), *_groups()]
