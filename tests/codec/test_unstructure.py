"""Writing documents: canonical form, and what has no place in one."""

import json

import attrs
import pytest
from attrs import frozen

from qconfig.codec.converter import (
    structure_any,
    unstructure,
)
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerGroup, PerRow, Precedence, Rule
from qconfig.configs.calibration import CalibrationConfig
from qconfig.errors import (
    DocumentErrors,
    FieldError,
    UnknownNameError,
)
from qconfig.layouts import Int8TensorLayout
from qconfig.layouts.activation import Int8Arithmetic, Int8Product, QuantizeTensorToInt8Kwargs
from qconfig.versioning import Kind
from tests.codec.converter_samples import CONVERTER


def test_canonical_form():
    """Type and version come first, every default is written out, tuples become arrays."""
    config = FqnToConfig(
        configs={"a": Int8WeightOnlyConfig()},
        rules=(Rule("x", "a"),),
        precedence=Precedence.PARAMETERS_FIRST,
    )
    assert json.dumps(unstructure(config)) == (
        '{"type": "FqnToConfig", "version": 2, "configs": {"a": {"type": "Int8WeightOnlyConfig", '
        '"version": 3, "granularity": {"type": "PerRow", "dim": -1}, "set_inductor_config": true}}'
        ', "rules": [{"match": "x", "use": "a", "modules": [], "optional": false}], '
        '"default": null, "default_modules": ["Linear"], "precedence": "parameters_first", '
        '"fused": []}'
    )


def test_canonical_form_of_a_layout():
    """A tensor of a layout is written as its dtype and shape."""
    layout = Int8TensorLayout(
        TensorSpec(DType.INT8, (2, 4)),
        TensorSpec(DType.FLOAT32, (2, 1)),
        (1, 4),
        DType.BFLOAT16,
    )
    document = unstructure(layout)
    assert document["qdata"] == {"dtype": "int8", "shape": [2, 4]}
    assert document["zero_point"] is None
    assert document["dtype"] == "bfloat16"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"bytes"])
def test_value_without_a_place(value):
    """What JSON has no word for is refused on the way out."""
    with pytest.raises(FieldError, match="value has no place in a document"):
        unstructure(value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: PerGroup("32"),
            "/group_size: group_size has a wrong type\n  found: '32'\n  expected: int",
        ),
        (
            lambda: PerRow(dim=True),
            "/dim: dim has a wrong type\n  found: True\n  expected: int",
        ),
        (
            lambda: Int8WeightOnlyConfig(granularity="per_row"),
            (
                "/granularity: granularity has a wrong type\n  found: 'per_row'\n"
                "  expected: PerTensor or PerRow or PerAxis or PerGroup"
            ),
        ),
        (
            lambda: FqnToConfig(precedence="declared"),
            (
                "/precedence: precedence has a wrong type\n  found: 'declared'\n"
                "  expected: one of Precedence.DECLARED, Precedence.PARAMETERS_FIRST"
            ),
        ),
        (
            lambda: FqnToConfig(configs={"a": 8}),
            (
                "/configs: configs has a wrong type\n  found: {'a': 8}\n"
                "  expected: dict[str, Config]"
            ),
        ),
        (
            lambda: CalibrationConfig(quant_dtype="int4"),
            (
                "/quant_dtype: quant_dtype has a wrong type\n  found: 'int4'\n"
                "  expected: one of 'int8', 'float8_e4m3fn', 'float8_e5m2'"
            ),
        ),
        (
            lambda: CalibrationConfig(layers="up"),
            ("/layers: layers has a wrong type\n  found: 'up'\n  expected: tuple[str, ...]"),
        ),
    ],
)
def test_constructor_checks_types(make, text):
    """A value of a wrong type is refused in Python too, so that what exists can be written."""
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value) == text


def test_lists_become_tuples():
    """Python callers may pass lists; the object is the one that a document gives."""
    config = FqnToConfig(rules=[Rule("x", None, modules=["Linear"])], fused=[["a", "b"]])
    assert config == structure_any(unstructure(config))
    assert config.fused == (("a", "b"),)


@frozen
class NotRegistered:
    """A class that nobody registered."""


def test_unregistered_class_does_not_structure():
    """A class outside the registry has no document."""
    with pytest.raises(UnknownNameError, match="class is not registered"):
        CONVERTER.structure({}, NotRegistered)


def test_hints_are_given_to_the_first_problems_only():
    """To compare each of many wrong names with each of many configs would take minutes."""
    row = {"type": "Int8WeightOnlyConfig", "version": 3}
    configs = {f"config_{i}": row for i in range(2000)}
    rules = [{"match": f"layer.{i}", "use": f"confi_{i}"} for i in range(2000)]
    document = {"type": "FqnToConfig", "version": 2, "configs": configs, "rules": rules}
    with pytest.raises(DocumentErrors) as caught:
        structure_any(document)
    problems = caught.value.problems
    assert problems[0].hint == "did you mean 'config_0'?"
    assert sum(problem.hint is not None for problem in problems) == 20
    assert max(len(problem.expected) for problem in problems) < 200


def test_added_fields_are_left_out_while_they_have_their_default():
    """Readers of a version's first release take its documents as long as they understand them."""
    kwargs = QuantizeTensorToInt8Kwargs(PerRow())
    spec = TensorSpec(DType.INT8, (4, 8)), TensorSpec(DType.FLOAT32, (4, 1))
    layout = Int8TensorLayout(*spec, (1, 8), "float32", act_quant_kwargs=kwargs)
    document = unstructure(layout)
    assert "arithmetic" not in document
    assert structure_any(document, Kind.LAYOUT) == layout
    older = attrs.evolve(layout, arithmetic=Int8Arithmetic(Int8Product.SCALE_TYPE))
    document = unstructure(older)
    assert document["arithmetic"]["product"] == "scale_type"
    assert structure_any(document, Kind.LAYOUT) == older
