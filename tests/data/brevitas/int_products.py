"""Cases of products, mean pools and gradients of `IntQuantTensor`."""

from tests.data.brevitas.rows import Row, defect, only_values, quirk, values

_PRODUCTS = {
    "linear": "F.linear(a, w)",
    "linear_channels": "F.linear(a, wp)",
    "linear_unsigned": "F.linear(v, wu)",
    "linear_mixed": "F.linear(v, w)",
    "linear_3d": "F.linear(c3, w)",
    "linear_3d_channels": "F.linear(c3, wp)",
    "linear_training": "F.linear(at, w)",
    "linear_learned": "F.linear(lb, w)",
    "linear_1d": "F.linear(vec, wv)",
    "linear_int_bias": "F.linear(a, w, bacc)",
    "linear_float_bias": "F.linear(a, w, f3)",
    "linear_other_bias": "F.linear(a, w, both)",
    "linear_channels_bias": "F.linear(a, wp, f3)",
    "linear_none": "F.linear(a, w, bias=None)",
    "linear_plain_input": "F.linear(t, w)",
    "linear_plain_weight": "F.linear(a, t)",
    "linear_plain_input_bias": "F.linear(t, w, f3)",
    "linear_zero_input": "F.linear(z, w)",
    "linear_zero_weight": "F.linear(a, wz)",
    "linear_rank": "F.linear(r2.set(zero_point=T(0.)), w)",
    "conv1d": "F.conv1d(seq, k1)",
    "conv1d_stride": "F.conv1d(seq, k1, stride=2)",
    "conv1d_channels": "F.conv1d(seq, k1p)",
    "conv1d_padding": "F.conv1d(seq, k1, padding=1)",
    "conv1d_bias": "F.conv1d(seq, k1, f3)",
    "conv1d_int_bias": "F.conv1d(seq, k1, bacc)",
    "conv2d": "F.conv2d(img, k2)",
    "conv2d_channels": "F.conv2d(img, k2p)",
    "conv2d_unsigned": "F.conv2d(imgu, k2)",
    "conv2d_dilation": "F.conv2d(img, k2, None, 1, 0, 2)",
    "conv2d_padding": "F.conv2d(img, k2, padding=1, stride=2)",
    "conv2d_groups": "F.conv2d(img, k2g, groups=2)",
    "conv2d_bias": "F.conv2d(img, k2, f3)",
    "conv2d_int_bias": "F.conv2d(img, k2, bacc)",
    "conv2d_same": "F.conv2d(img, k2, padding='same')",
    "conv2d_zero_input": "F.conv2d(imgz, k2)",
    "conv2d_zero_weight": "F.conv2d(img, k2z)",
    "conv2d_plain_weight": "F.conv2d(img, k2.value)",
    "conv3d": "F.conv3d(vol, k3)",
    "conv3d_stride": "F.conv3d(vol, k3, stride=(1, 2, 2))",
    "transposed_1d": "F.conv_transpose1d(seq, k1t, stride=(1,))",
    "transposed_1d_stride": "F.conv_transpose1d(seq, k1t, stride=(2,))",
    "transposed_2d": "F.conv_transpose2d(ims, k2t, stride=(1, 1))",
    "transposed_2d_stride": "F.conv_transpose2d(ims, k2t, stride=(2, 2))",
    "transposed_2d_mixed": "F.conv_transpose2d(ims, k2t, stride=(1, 2), padding=(0, 1))",
    "transposed_2d_bias": "F.conv_transpose2d(ims, k2t, bias=f3, stride=(2, 2))",
    "transposed_2d_groups": "F.conv_transpose2d(img4, k2g, stride=(1, 1), groups=4)",
    "transposed_3d": "F.conv_transpose3d(vol, k3t, stride=(1, 1, 1))",
    "embedding": "F.embedding(ids, emb)",
    "embedding_zero": "F.embedding(ids, embz)",
    "embedding_rows": "F.embedding(T([2, 0]), emb)",
    "embedding_padding": "F.embedding(ids, emb, padding_idx=0)",
}


def _products() -> list[Row]:
    rows = [Row(n, e) for n, e in _PRODUCTS.items()]
    kept = "bias of a product of rank 3 is viewed on dimension 1"
    rows += [
        defect(
            f"linear_3d_bias_{b}",
            f"F.linear(c4, w, {b})",
            {
                "type": "IntQuantTensor",
                "is_valid": True,
                **values(f"F.linear(c4.value, w.value, {p})"),
            },
            kept,
        )
        for b, p in (("f3", "f3"), ("bacc", "bacc.value"), ("both", "both.value"))
    ]
    both = "a scale for each input and one for each output: the product means nothing"
    rows += [
        defect(
            "linear_channels_both",
            "F.linear(p1, p0)",
            only_values("F.linear(p1.value, p0.value)"),
            both,
        ),
        defect(
            "conv_channels_both",
            "F.conv2d(imgp, k2)",
            only_values("F.conv2d(imgp.value, k2.value)"),
            both,
        ),
        Row("conv_channels_mismatch", "F.conv2d(imgp, k2p)"),
        quirk(
            "linear_int_bias_32",
            "F.linear(a, w, bacc32)",
            {
                "type": "IntQuantTensor",
                "is_valid": True,
                "bit_width_at_least": 32,
                **values("F.linear(a.value, w.value, bacc32.value)"),
            },
            "33 bits do not fit the int32 of int()",
        ),
        defect("linear_rows", "F.linear(p0, w)", values("F.linear(p0.value, w.value)"), both),
        quirk(
            "linear_bias_channels",
            "F.linear(a, wp, baccp)",
            values("F.linear(a.value, wp.value, baccp.value)"),
        ),
    ]
    need = "stride has to be a keyword"
    rows += [
        defect(
            "transposed_1d_default",
            "F.conv_transpose1d(seq, k1t)",
            "F.conv_transpose1d(seq, k1t, stride=(1,))",
            need,
        ),
        defect(
            "transposed_2d_default",
            "F.conv_transpose2d(ims, k2t)",
            "F.conv_transpose2d(ims, k2t, stride=(1, 1))",
            need,
        ),
        defect(
            "transposed_2d_channels",
            "F.conv_transpose2d(ims, k2tp, stride=(1, 1))",
            values("F.conv_transpose2d(ims.value, k2tp.value)"),
            "scales of channels lie in dimension 1",
        ),
        defect(
            "transposed_2d_number",
            "F.conv_transpose2d(ims, k2t, stride=2)",
            "F.conv_transpose2d(ims, k2t, stride=(2, 2))",
        ),
        Row("embedding_channels", "F.embedding(T([1, 0]), p0)"),
    ]
    return rows


def _pools() -> list[Row]:
    args = "{}, {}, 0, {}, True, None"
    rows = [
        Row(f"mean_{x}_{n}", f"F.avg_pool2d({x}, {args.format(k, s, ceil)})")
        for x in ("img", "imgu", "imgp")
        for n, k, s, ceil in (
            ("2", "2", "2", "False"),
            ("2x1", "(2, 1)", "(2, 1)", "False"),
            ("3_1", "3", "1", "False"),
        )
    ]
    rows += [
        Row(f"mean_adaptive_{x}_{n}", f"F.adaptive_avg_pool2d({x}, {size})")
        for x in ("img", "imgu")
        for n, size in (("1", "1"), ("2", "(2, 2)"), ("2x1", "(2, 1)"))
    ]
    shifted = (
        "the sum of k codes with zero point z has k z, not z: all least codes are out of range"
    )
    for x in ("imgz", "imgl"):
        verdict = defect if x == "imgl" else quirk
        for n, call in (
            ("2", f"F.avg_pool2d({x}, 2, 2, 0, False, True, None)"),
            ("2x1", f"F.avg_pool2d({x}, (2, 1), (2, 1), 0, False, True, None)"),
            ("3_1", f"F.avg_pool2d({x}, 3, 1, 0, False, True, None)"),
            ("adaptive_1", f"F.adaptive_avg_pool2d({x}, 1)"),
            ("adaptive_2x1", f"F.adaptive_avg_pool2d({x}, (2, 1))"),
        ):
            better = {
                "type": "IntQuantTensor",
                "signed": False,
                "is_valid": True,
                **values(call.replace(x, f"{x}.value")),
            }
            rows.append(verdict(f"mean_{x}_{n}", call, better, shifted))
    rows.append(Row("mean_whole", "F.avg_pool2d(img, 4, 4, 0, False, True, None)"))
    short = "the handler has no defaults"
    rows += [
        defect(f"mean_short_{n}", e, "F.avg_pool2d(img, 2, 2, 0, False, True, None)", short)
        for n, e in {
            "two": "F.avg_pool2d(img, 2)",
            "keyword": "F.avg_pool2d(img, kernel_size=2)",
            "three": "F.avg_pool2d(img, 2, 2)",
        }.items()
    ]
    edge = "windows of different size have no common scale"
    rows += [
        quirk(
            "mean_override",
            "F.avg_pool2d(img, 2, 2, 0, False, True, 3)",
            values("F.avg_pool2d(img.value, 2, 2, 0, False, True, 3)"),
        ),
        quirk(
            "mean_padding",
            "F.avg_pool2d(img, 2, 2, 1, False, True, None)",
            values("F.avg_pool2d(img.value, 2, 2, 1)"),
        ),
        quirk(
            "mean_padding_left_out",
            "F.avg_pool2d(img, 2, 2, 1, False, False, None)",
            values("F.avg_pool2d(img.value, 2, 2, 1, False, False)"),
            edge,
        ),
        quirk(
            "mean_padding_zero",
            "F.avg_pool2d(imgz, 2, 2, 1, False, True, None)",
            values("F.avg_pool2d(imgz.value, 2, 2, 1)"),
        ),
        quirk(
            "mean_ceil",
            "F.avg_pool2d(imgb, 2, 2, 0, True, True, None)",
            values("F.avg_pool2d(imgb.value, 2, 2, 0, True)"),
            edge,
        ),
        quirk(
            "mean_adaptive_uneven",
            "F.adaptive_avg_pool2d(img, 3)",
            values("F.adaptive_avg_pool2d(img.value, 3)"),
            edge,
        ),
        quirk(
            "mean_adaptive_uneven_5",
            "F.adaptive_avg_pool2d(imgb, 3)",
            values("F.adaptive_avg_pool2d(imgb.value, 3)"),
            edge,
        ),
        quirk("mean_1d", "F.avg_pool1d(seq, 2)", values("F.avg_pool1d(seq.value, 2)")),
        quirk("mean_3d", "F.avg_pool3d(vol, 2)", values("F.avg_pool3d(vol.value, 2)")),
    ]
    return rows


def _gradients() -> list[Row]:
    both = {"at": ["value", "scale"]}
    rows = [
        Row(f"gradient_{n}", e, grad=both)
        for n, e in {
            "value": "at.value.sum()",
            "int_float": "at.int(float_datatype=True).sum()",
            "add": "(at + bt).value.sum()",
            "sub": "(at - bt).value.square().sum()",
            "mul": "(at * at).value.sum()",
            "neg": "(-at).value.square().sum()",
            "abs": "abs(at).value.square().sum()",
            "div": "(at / b).value.sum()",
            "view": "at.view(-1).value.sum()",
            "cat": "torch.cat([at, bt], dim=0).value.square().sum()",
            "transpose": "(at.transpose(0, 1).value * t).sum()",
            "relu": "F.relu(at).value.sum()",
            "matmul": "torch.matmul(at, t).sum()",
            "linear": "F.linear(at, w).value.square().sum()",
            "linear_scale": "F.linear(at, w).scale.sum()",
            "mul_scale": "(at * b).scale.sum()",
            "add_scale": "(at + bt).scale.sum()",
            "sum": "torch.sum(at)",
            "product_int": "(at * b).int(float_datatype=True).sum()",
        }.items()
    ]
    rows += [
        Row(
            "gradient_channels",
            "p0.int(float_datatype=True).sum()",
            grad={"p0": ["value", "scale"]},
        ),
        Row(
            "gradient_weight",
            "F.linear(a, wp).value.square().sum()",
            grad={"wp": ["value", "scale"]},
        ),
        Row(
            "gradient_bias",
            "F.linear(a, w, f3).value.square().sum()",
            grad={"f3": [""], "w": ["value"]},
        ),
        Row(
            "gradient_zero_point",
            "z.int(float_datatype=True).sum()",
            grad={"z": ["value", "zero_point"]},
        ),
        Row(
            "gradient_image",
            "F.conv2d(img, k2).value.square().sum()",
            grad={"img": ["value"], "k2": ["value"]},
        ),
        Row(
            "gradient_pool",
            "F.avg_pool2d(img, 2, 2, 0, False, True, None).value.square().sum()",
            grad={"img": ["value", "scale"]},
        ),
        Row(
            "gradient_embedding",
            "F.embedding(ids, emb).value.square().sum()",
            grad={"emb": ["value"]},
        ),
        Row(
            "gradient_bit_width",
            "(lb + a).bit_width.sum()",
            note="to the hundredth: one code more or less in the sum's range",
            grad={"lb": ["bit_width", "value"]},
            more={"tolerance": 0.01},
        ),
    ]
    return rows


ROWS = [*_products(), *_pools(), *_gradients()]
