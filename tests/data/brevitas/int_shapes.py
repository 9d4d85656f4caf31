"""Cases of shapes, invariant functions, pools and conversions of `IntQuantTensor`."""

from tests.data.brevitas.rows import RAISES, Row, defect, quirk, values

_LOST = "metadata of channels stays as it was and no longer fits"
_FULL = "IntQuantTensor({x}.value{op}, {s}, {z}, {x}.bit_width, {x}.signed, {x}.training)"


def _moved(x: str, op: str, *, scale: bool = True, zero: bool = False) -> str:
    s = f"{x}.scale{op}" if scale else f"{x}.scale"
    return _FULL.format(x=x, op=op, s=s, z=f"{x}.zero_point{op}" if zero else f"{x}.zero_point")


def _reshaped() -> list[Row]:
    rows = [
        Row(f"shape_{n}_{x}", e.format(x))
        for x in ("a", "u", "z", "at", "lb")
        for n, e in {
            "view": "{}.view(4, 1)",
            "reshape": "{}.reshape(1, -1)",
            "flatten": "{}.flatten()",
            "flatten_function": "torch.flatten({})",
            "transpose": "{}.transpose(-1, 0)",
            "permute": "{}.permute(1, 0)",
            "transpose_function": "torch.transpose({}, 0, 1)",
        }.items()
    ]
    rows += [
        Row(f"shape_{n}", e)
        for n, e in {
            "flatten_some": "torch.flatten(c3, 1)",
            "reshape_empty": "e0.reshape(3, 0)",
            "view_scalar": "s0.view(1, 1)",
            "transpose_channels": "p0.transpose(0, 1)",
            "permute_channels": "c3p.permute(2, 0, 1)",
            "transpose_channels_3": "c3p.transpose(1, 2)",
            "permute_negative": "c3p.permute(-1, 0, 1)",
            "transpose_zero_points": "pz.transpose(0, 1)",
            "permute_image": "imgp.permute(0, 2, 3, 1)",
            "transpose_function": "torch.transpose(p0, 0, 1)",
            "contiguous": "a.transpose(0, 1).contiguous()",
            "view_of_rank": "r1.view(4)",
        }.items()
    ]
    for x, op in (
        ("p0", ".reshape(-1)"),
        ("p0", ".view(4)"),
        ("p0", ".flatten()"),
        ("p1", ".view(4, 1)"),
        ("c3p", ".reshape(6, 2)"),
        ("c3p", ".flatten(1)"),
        ("c3p", ".view(2, 6)"),
        ("pz", ".reshape(1, 4)"),
        ("imgp", ".flatten(1)"),
        ("imgp", ".reshape(2, 16)"),
    ):
        name = f"misaligned_{x}_{op.strip('.').translate(str.maketrans('(,', '__', ') -'))}"
        better = {"any_of": [values(f"{x}.value{op}"), RAISES]}
        rows.append(defect(name, f"{x}{op}", better, _LOST))
    rows.append(
        defect("misaligned_torch_flatten", "torch.flatten(p0)", values("p0.value.flatten()"), _LOST)
    )
    return rows


def _indexed() -> list[Row]:
    rows = []
    plain = "a tuple's index, or a method that does not exist"
    for n, op in {
        "row": "[0]",
        "slice": "[0:1]",
        "column": "[:, 0]",
        "columns": "[:, 1:]",
        "last": "[-1]",
        "step": "[::2]",
        "new_axis": "[None]",
        "ellipsis": "[..., 0]",
        "list": "[[1, 0]]",
    }.items():
        rows.append(defect(f"index_{n}_tensor", f"a{op}", _moved("a", op, scale=False), plain))
    for n, op in {
        "row": "[0]",
        "slice": "[0:1]",
        "slice_1": "[1:]",
        "last": "[-1]",
        "new_axis": "[None]",
    }.items():
        rows.append(defect(f"index_{n}_channels", f"p0{op}", _moved("p0", op), plain))
        rows.append(defect(f"index_{n}_zero_points", f"pz{op}", _moved("pz", op, zero=True), plain))
    rows += [
        defect("index_columns_channels", "p0[:, 0:1]", _moved("p0", "[:, 0:1]"), plain),
        defect(
            "index_column_channels",
            "p0[:, 1]",
            "IntQuantTensor(p0.value[:, 1], p0.scale[:, 0], p0.zero_point, T(8.), True, False)",
            plain,
        ),
        defect(
            "index_rows_shared",
            "p1[0:1]",
            "IntQuantTensor(p1.value[0:1], p1.scale, p1.zero_point, T(8.), True, False)",
            plain,
        ),
        defect("index_mask", "a[t > 0]", values("a.value[t > 0]"), plain),
        defect("index_mask_channels", "p0[t > 0]", values("p0.value[t > 0]"), plain),
        defect(
            "index_deep",
            "c3p[1, 0:2]",
            "IntQuantTensor(c3p.value[1, 0:2], c3p.scale[0, 0:2], T(0.), T(8.), True, False)",
            plain,
        ),
        defect("index_image", "imgp[0, 1]", values("imgp.value[0, 1]"), plain),
        defect(
            "iterate",
            "[r for r in a]",
            [(f"[{_moved('a', '[0]', scale=False)}, {_moved('a', '[1]', scale=False)}]")],
            plain,
        ),
        defect("unpack", "(lambda x, y: y)(*p0)", _moved("p0", "[1]"), plain),
    ]
    function = "the function forgets the metadata"
    for n, e, x, op, scale in (
        ("squeeze", "torch.squeeze(s1, 0)", "s1", ".squeeze(0)", False),
        ("unsqueeze", "torch.unsqueeze(a, 0)", "a", ".unsqueeze(0)", False),
        ("unsqueeze_channels", "torch.unsqueeze(p0, 0)", "p0", ".unsqueeze(0)", True),
        ("unsqueeze_channels_last", "torch.unsqueeze(p0, -1)", "p0", ".unsqueeze(-1)", True),
        ("squeeze_channels", "torch.squeeze(imgp, 0)", "imgp", ".squeeze(0)", True),
        ("permute", "torch.permute(p0, (1, 0))", "p0", ".permute(1, 0)", True),
        ("t", "torch.t(p0)", "p0", ".t()", True),
        ("narrow", "torch.narrow(p0, 0, 1, 1)", "p0", ".narrow(0, 1, 1)", True),
        ("select", "torch.select(p0, 0, 1)", "p0", ".select(0, 1)", True),
        ("clone", "torch.clone(p0)", "p0", ".clone()", True),
    ):
        moved = _moved(x, op, scale=scale)
        better = [moved, values(f"{x}.value{op}")] if n in ("narrow", "select") else moved
        rows.append(quirk(f"function_{n}", e, better, function))
    method = "there is no such method"
    for x, op in (
        ("a", ".unsqueeze(0)"),
        ("p0", ".unsqueeze(0)"),
        ("p0", ".unsqueeze(-1)"),
        ("p0", ".t()"),
        ("imgp", ".squeeze(0)"),
        ("s1", ".squeeze()"),
        ("p0", ".clone()"),
        ("c3p", ".unsqueeze(1)"),
    ):
        name = op.strip(".").split("(", maxsplit=1)[0]
        better = _moved(x, op, scale=x not in ("a", "s1"))
        rows.append(
            defect(f"method_{name}_{x}_{op.count('-')}{op.count('1')}", f"{x}{op}", better, method)
        )
    for n, e in {
        "chunk": "torch.chunk(a, 2)",
        "split": "torch.split(a, 1)",
        "unbind": "torch.unbind(a)",
        "chunk_channels": "torch.chunk(p0, 2)",
    }.items():
        x = "p0" if "p0" in e else "a"
        plain_parts = e.replace(x, f"{x}.value")
        parts = {"items": [values(f"{plain_parts}[{i}]") for i in (0, 1)]}
        rows.append(quirk(f"function_{n}", e, parts, function))
    rows += [
        Row("plain_T_absent", "torch.swapaxes(a, 0, 1)", "quirk", values("a.value.t()")),
        Row("plain_roll", "torch.roll(p0, 1, 0)", "quirk", values("p0.value.roll(1, 0)")),
        Row("plain_flip", "torch.flip(p0, (0,))", "quirk", values("p0.value.flip(0)")),
        Row(
            "plain_expand",
            "torch.broadcast_to(r1, (3, 2, 2))",
            "quirk",
            values("r1.value.broadcast_to(3, 2, 2)"),
        ),
        Row("plain_tile", "torch.tile(p0, (2, 1))", "quirk", values("p0.value.tile(2, 1)")),
    ]
    return rows


_INVARIANT = {
    "relu": "F.relu({})",
    "hardtanh": "F.hardtanh({})",
    "dropout": "F.dropout({}, 0.5, False)",
    "alpha_dropout": "F.alpha_dropout({}, 0.5, False)",
}
_IMAGE = {
    "max": "F.max_pool2d({}, 2)",
    "max_stride": "F.max_pool2d({}, 2, 1)",
    "max_pad": "F.max_pool2d({}, 3, 2, 1)",
    "max_dilation": "F.max_pool2d({}, 2, 1, 0, 2)",
    "max_ceil": "F.max_pool2d({}, 3, 2, ceil_mode=True)",
    "adaptive": "F.adaptive_max_pool2d({}, 2)",
    "pad": "F.pad({}, (1, 0, 0, 1))",
    "nearest_size": "F.interpolate({}, size=(2, 3), mode='nearest')",
}


def _invariant() -> list[Row]:
    rows = [
        Row(f"{n}_{x}", e.format(x)) for n, e in _INVARIANT.items() for x in ("a", "z", "p0", "at")
    ]
    rows += [
        Row(f"image_{n}_{x}", e.format(x))
        for n, e in _IMAGE.items()
        for x in ("img", "imgu", "imgp")
    ]
    rows += [
        Row(f"image_{n}", e)
        for n, e in {
            "max_1d": "F.max_pool1d(seq, 2)",
            "max_1d_channels": "F.max_pool1d(seqp, 3, 1)",
            "max_3d": "F.max_pool3d(vol, 2)",
            "adaptive_1d": "F.adaptive_max_pool1d(seq, 3)",
            "adaptive_3d": "F.adaptive_max_pool3d(vol, (1, 2, 2))",
            "shuffle": "F.pixel_shuffle(img4, 2)",
            "unshuffle": "F.pixel_unshuffle(img, 2)",
            "dropout2d": "F.dropout2d(img, 0.5, False)",
            "dropout1d": "F.dropout1d(seq, 0.5, False)",
            "dropout3d": "F.dropout3d(vol, 0.5, False)",
            "feature_alpha": "F.feature_alpha_dropout(img, 0.5, False)",
            "relu6": "F.relu6(img)",
            "nearest_twice": "F.interpolate(img4p, scale_factor=2, mode='nearest')",
            "bilinear": "F.interpolate(ims, scale_factor=2, mode='bilinear')",
            "bicubic": "F.interpolate(ims, scale_factor=2, mode='bicubic')",
            "linear": "F.interpolate(seq, scale_factor=2, mode='linear')",
            "pad_value": "F.pad(a, (1, 1), value=1.0)",
            "pad_negative": "F.pad(c3, (-1, 0))",
            "pad_reflect": "F.pad(img, (1, 1, 1, 1), mode='reflect')",
        }.items()
    ]
    off = "the constant is not on the grid"
    rows += [
        quirk(
            "pad_off_grid",
            "F.pad(off, (1, 0), value=1.0)",
            values("F.pad(off.value, (1, 0), value=1.0)"),
            off,
        ),
        quirk("relu6_off_grid", "F.relu6(off)", values("F.relu6(off.value)"), off),
        quirk("hardtanh_off_grid", "F.hardtanh(off)", values("F.hardtanh(off.value)"), off),
        quirk(
            "pad_channels",
            "F.pad(p0, (0, 0, 1, 0))",
            values("F.pad(p0.value, (0, 0, 1, 0))"),
            "there are more channels than scales",
        ),
        quirk("pad_zero_points", "F.pad(imgz, (1, 1))", values("F.pad(imgz.value, (1, 1))")),
        defect(
            "shuffle_channels",
            "F.pixel_shuffle(img4p, 2)",
            values("F.pixel_shuffle(img4p.value, 2)"),
            _LOST,
        ),
        defect(
            "unshuffle_channels",
            "F.pixel_unshuffle(imgp, 2)",
            values("F.pixel_unshuffle(imgp.value, 2)"),
            _LOST,
        ),
        quirk(
            "torch_relu",
            "torch.relu(a)",
            ["F.relu(a)", values("a.value.relu()")],
            "the function too",
        ),
        quirk("torch_relu_channels", "torch.relu(p0)", ["F.relu(p0)", values("p0.value.relu()")]),
    ]
    return rows


def _converted() -> list[Row]:
    rows = [
        Row(f"{n}_{x}", e.format(x))
        for x in ("p0", "z", "at", "lb1", "e0")
        for n, e in {
            "detach": "{}.detach()",
            "cpu": "{}.cpu()",
            "contiguous": "{}.contiguous()",
            "shape": "[list({0}.shape), {0}.dim()]",
            "same_device": "{}.to('cpu')",
        }.items()
    ]
    rows += [
        defect(
            f"to_{x}_{d}",
            f"{x}.to(torch.{d})",
            {
                "type": "IntQuantTensor",
                "signed": x != "z",
                "training": False,
                "is_valid": True,
                **values(f"{x}.value.to(torch.{d})"),
            },
            "flags become numbers",
        )
        for x in ("p0", "z")
        for d in ("float16", "bfloat16", "float64")
    ]
    rows += [
        Row(f"set_{n}", e)
        for n, e in {
            "value": "a.set(value=b.value)",
            "scale": "p0.set(scale=p0.scale * 2)",
            "zero_point": "u.set(zero_point=T(1.))",
            "bit_width": "d4.set(bit_width=T(8.))",
        }.items()
    ]
    rows += [
        defect(
            "set_flag",
            "a.set(signed=False)",
            "IntQuantTensor(a.value, a.scale, a.zero_point, T(8.), False, False)",
        ),
        Row("set_nothing_known", "a.set(nonsense=1)"),
    ]
    for dtype, low, high in (
        ("float32", 0.19, 0.21),
        ("float64", 0.09, 0.11),
        ("float16", 0.4, 0.5),
    ):
        for side, gap in (("in", low), ("out", high)):
            e = (
                f"(lambda d: IntQuantTensor(T([3 + {gap}, -2], dtype=d), T(1., dtype=d), "
                f"T(0., dtype=d), T(8.), True, False).is_valid)(torch.{dtype})"
            )
            rows.append(Row(f"tolerance_{dtype}_{side}", e))
    rows += [
        Row(f"valid_{n}", f"IntQuantTensor(T({v}), T(1.), T({z}), T({b}), {s}, False).is_valid")
        for n, v, z, b, s in (
            ("above", "[128.]", 0.0, 8.0, True),
            ("below", "[-129.]", 0.0, 8.0, True),
            ("negative_unsigned", "[-1.]", 0.0, 8.0, False),
            ("shifted", "[-3.]", 3.0, 8.0, False),
            ("shifted_out", "[253.]", 3.0, 8.0, False),
            ("least", "[-128.]", 0.0, 8.0, True),
            ("three_of_one_bit", "[0., 1., 2.]", 0.0, 1.0, False),
            ("one_bit", "[0., 1.]", 0.0, 1.0, False),
            ("one_bit_signed", "[-1., 1.]", 0.0, 1.0, True),
            ("fraction_of_bits", "[7.]", 0.0, 3.7, True),
            ("one_bit_as_signed", "[0., 1.]", 0.0, 1.0, True),
            ("nan", "[float('nan')]", 0.0, 8.0, True),
            ("infinite", "[float('inf')]", 0.0, 8.0, True),
            ("sixteen", "[32767., -32768.]", 0.0, 16.0, True),
        )
    ]
    rows.append(
        Row("int_invalid", "IntQuantTensor(T([0.4]), T(1.), T(0.), T(8.), True, False).int()")
    )
    rows.append(Row("numbers", "IntQuantTensor(T([1.5, -2.]), 0.5, 0.0, 8.0, True, False)"))
    rows += [
        defect(f"attribute_{n}", e, {"any_of": [right]}, "no such attribute")
        for n, e, right in (
            ("dtype", "str(p0.dtype)", "torch.float32"),
            ("ndim", "c3p.ndim", 3),
            ("numel", "c3p.numel()", 12),
            ("requires_grad", "a.requires_grad", False),
            ("contiguous", "a.is_contiguous()", True),
            ("floating", "a.is_floating_point()", True),
            ("instance", "isinstance(z, torch.Tensor)", True),
            ("tensor", "torch.is_tensor(p0)", True),
        )
    ]
    rows += [
        Row("attribute_device", "str(a.device)"),
        Row("attribute_size", "[list(c3p.size()), c3p.size(-1)]"),
        Row("attribute_flags", "[a.signed, u.signed, at.training, a.training]"),
    ]
    rows.append(
        quirk("empty_is_valid", "e0.is_valid", {"any_of": [True]}, "an empty tensor has no maximum")
    )
    return rows


ROWS = [*_reshaped(), *_indexed(), *_invariant(), *_converted()]
