"""What is right where the collection's reference set has a quirk or a defect, by case id.

Expressions over the inputs of the case; see `Row.better`. Where metadata has more than one right
answer, only the values are given, and the result must be consistent in itself.
"""

from typing import Any

from tests.data.brevitas.rows import RAISES, only_values, values

_A = "IntQuantTensor(a.value{0}, a.scale, a.zero_point, T(8.), True, False)"
_HALF = {"type": "IntQuantTensor", "signed": True, "training": False, "is_valid": True}

BETTER: dict[str, Any] = {
    "int_add_mixed_sign_overflow": {
        **values("p.value + q.value"),
        "is_valid": True,
        "signed": True,
        "bit_width_at_least": 10,
    },
    "int_add_train_left_only_checked": {"any_of": [values("x.value + y.value"), RAISES]},
    "int_add_eval_left_train_right": {"any_of": [values("x.value + y.value"), RAISES]},
    "int_add_scalar": only_values("a.value + 1.0"),
    "int_add_scalar_nongrid": only_values("a.value + 0.3"),
    "int_add_tensor": only_values("a.value + t"),
    "tensor_add_int": only_values("t + a.value"),
    "torch_add_fallback": "a + b",
    "int_sub_zero_point": values("x.value - y.value"),
    "int_sub_tensor": only_values("a.value - t"),
    "scalar_rsub": only_values("1.0 - a.value"),
    "scalar_rmul_float": only_values("2.0 * a.value"),
    "int_div": values("a.value / b.value"),
    "scalar_rdiv": only_values("1.0 / a.value"),
    "int_matmul_operator": values("a.value @ b.value"),
    "int_neg_min": values("-x.value"),
    "int_abs_zero_point": values("x.value.abs()"),
    "torch_abs_fallback": "abs(a)",
    "int_valid_tolerance_f16": {"any_of": [True, False]},
    "int_valid_binary_single_value": {"any_of": [True, False]},
    "int_cat_no_dim": "torch.cat([a, b], dim=0)",
    "int_cat_per_channel_dim0": "IntQuantTensor(torch.cat([x.value, y.value]), "
    "torch.cat([x.scale, y.scale]), x.zero_point, x.bit_width, True, False)",
    "int_reshape_per_channel": {"any_of": [values("pc.value.reshape(-1)"), RAISES]},
    "torch_permute_fallback": "a.permute(1, 0)",
    "int_t_fallback": "a.transpose(0, 1)",
    "int_getitem": _A.format("[0]"),
    "int_getitem_slice": _A.format("[0:1]"),
    "int_narrow_fallback": [_A.format(".narrow(0, 0, 1)"), values("a.value[0:1]")],
    "int_chunk_fallback": {"items": [values("a.value[0:1]"), values("a.value[1:2]")]},
    "int_eq": values("a.value == b.value"),
    "torch_relu_fallback": ["F.relu(a)", values("a.value.relu()")],
    "int_relu6": values("F.relu6(x.value)"),
    "int_pixel_shuffle_per_channel": values("F.pixel_shuffle(x.value, 2)"),
    "int_avg_pool2d_short_call": "F.avg_pool2d(img, 2, 2, 0, False, True, None)",
    "int_linear_int_bias_diff_scale": values("F.linear(a.value, w.value, bq.value)"),
    "int_linear_per_channel_both": only_values("F.linear(x.value, wc.value)"),
    "int_linear_3d_float_bias": values("F.linear(x.value, w.value, t)"),
    "int_conv_transpose1d_no_stride": "F.conv_transpose1d(x, k, stride=(1,))",
    "int_to_half": {**_HALF, **values("x.value.half()")},
    "int_to_float64": {**_HALF, **values("x.value.double()")},
    "int_dtype_attr": "'torch.float32'",
    "fp_e2m1_is_valid": {"any_of": [True]},
    "fp_e2m1_out_of_range_is_valid": {"any_of": [False]},
    "fp_cat_e4m3_no_inf": {
        "type": "FloatQuantTensor",
        "is_valid": True,
        **values("torch.cat([a.value, b.value])"),
    },
    "fp_cat_different_formats": {
        "any_of": [RAISES, {"type": "Tensor", **values("torch.cat([a.value, b.value])")}]
    },
    "fp_detach_inplace": {"any_of": [values("x.value"), RAISES]},
    "fp_to_half": {
        "type": "FloatQuantTensor",
        "signed": True,
        "training": False,
        "saturating": True,
        **values("x.value.half()"),
    },
    "gi_no_dequant_shape": {
        "any_of": [values("x.value_.flatten(x.group_dim, x.group_dim + 1)"), RAISES]
    },
    "gi_view": {"type": "Tensor", **values("x.value.reshape(-1)")},
    "gi_flatten": {"type": "Tensor", **values("x.value.flatten()")},
    "gi_max_pool": values("F.max_pool1d(x.value, 2)"),
    "gi_abs": values("x.value.abs()"),
}
