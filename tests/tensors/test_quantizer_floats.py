import pytest
import torch

from qconfig.configs.float_formats import FORMATS
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.quant_choices import FloatFormat
from qconfig.tensors.quantizers import quantize_float, quantize_weight
from tests.brevitas_peer import quantized_weight
from tests.tensors.quantizer_pairs import ocp
from tests.tensors.quantizer_samples import same_bits

TYPES = {
    FloatFormat.OCP_E4M3: torch.float8_e4m3fn,
    FloatFormat.OCP_E5M2: torch.float8_e5m2,
    FloatFormat.FNUZ_E4M3: torch.float8_e4m3fnuz,
    FloatFormat.FNUZ_E5M2: torch.float8_e5m2fnuz,
}
ONE = torch.ones(())


def every_value(dtype):
    """Return every number of a type of 16 bits; of float32 those, and what lies around them."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32)
    if dtype is not torch.float32:
        return patterns.to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(-(2**31), 2**31 - 1, (2**17,), generator=generator).to(torch.int32)
    wide = patterns << 16
    return torch.cat([wide, wide + 1, wide - 1, wide + 2**15, drawn]).view(torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_saturating_floats_are_casts_of_clamped_values(name, dtype):
    """With scale 1, values are those of torch's cast after clamping, infinity and -0 too."""
    values, kind = every_value(dtype), FORMATS[name]
    found = quantize_float(values, ONE.to(dtype), kind)
    expected = values.clamp(-kind.largest, kind.largest).to(TYPES[name])
    assert same_bits(found, expected.to(dtype))
    codes = found.to(TYPES[name]).view(torch.uint8)
    assert torch.equal(codes[~found.isnan()], expected.view(torch.uint8)[~found.isnan()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "name", [FloatFormat.OCP_E5M2, FloatFormat.FNUZ_E4M3, FloatFormat.FNUZ_E5M2]
)
def test_overflowing_floats_are_casts(name, dtype):
    """Without saturation, values out of range are infinite or NaN, as torch casts them."""
    values = every_value(dtype)
    found = quantize_float(values, ONE.to(dtype), FORMATS[name], saturating=False)
    assert same_bits(found, values.to(TYPES[name]).to(dtype))


def test_e4m3_overflows_to_nan():
    """Above 464, the middle of 448 and what would be 480, OCP's e4m3 has NaN."""
    values = torch.tensor([448.0, 464.0, 464.1, -464.1, torch.inf])
    found = quantize_float(values, ONE, FORMATS[FloatFormat.OCP_E4M3], saturating=False)
    assert same_bits(found, torch.tensor([448.0, 448.0, torch.nan, torch.nan, torch.nan]))


@pytest.mark.parametrize(
    ("quantizer", "config"),
    [
        (ocp.Fp8e4m3OCPWeight, FloatQuantConfig(scale_kind="UNSCALED", saturating=False)),
        (
            ocp.Fp8e5m2OCPWeight,
            FloatQuantConfig.of_format("OCP_E5M2", scale_kind="UNSCALED", saturating=False),
        ),
    ],
    ids=["e4m3", "e5m2"],
)
def test_overflow_is_that_of_brevitas(quantizer, config):
    """What is out of range becomes what Brevitas makes of it."""
    values = every_value(torch.float32)
    values = values[values.isfinite()][: 32 * 1024].reshape(32, -1)
    expected = quantized_weight(quantizer, values, saturating=False).value.detach()
    assert same_bits(quantize_weight(values, config)[0], expected)


@pytest.mark.parametrize("name", FORMATS)
def test_every_value_of_a_format_stays(name):
    """The grid of a format is a fixed point, and its largest value is the bound."""
    kind = FORMATS[name]
    exponents = torch.arange(1 - kind.exponent_bias, kind.largest_exponent + 1)
    steps = torch.arange(2**kind.mantissa_bit_width) / 2**kind.mantissa_bit_width
    normal = ((1 + steps) * 2.0 ** exponents[:, None]).flatten()
    values = torch.cat([steps * 2.0 ** exponents[0], normal])
    values = values[values <= kind.largest]
    assert same_bits(quantize_float(values, ONE, kind), values)
    assert same_bits(quantize_float(-values[1:], ONE, kind), -values[1:])
    assert quantize_float(torch.tensor(3e38), ONE, kind) == kind.largest


def test_unsigned_floats_have_no_negative_values():
    """What is below 0 becomes 0."""
    kind = FORMATS[FloatFormat.OCP_E2M1]
    found = quantize_float(torch.tensor([-3.0, 2.6, 9.0]), ONE, kind, signed=False)
    assert torch.equal(found, torch.tensor([0.0, 3.0, 6.0]))


def test_float64_keeps_its_exponents():
    """Exponents that float32 does not have are read as well."""
    values = torch.tensor([2.0**-140 * 1.3, 1.3], dtype=torch.float64)
    scale = torch.tensor(2.0**-140, dtype=torch.float64)
    found = quantize_float(values, scale, FORMATS[FloatFormat.OCP_E4M3])
    assert found[0] / scale == 1.25
    assert found[1] == 448 * scale
