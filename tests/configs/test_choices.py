"""Choices by name: torchao's users write strings, documents hold one spelling."""

import pytest
import torch

from qconfig.api import config_from_dict, config_to_dict
from qconfig.codec.dtypes import DType
from qconfig.configs import Int4WeightOnlyConfig, IntxWeightOnlyConfig
from qconfig.configs.calibration import CalibrationConfig
from qconfig.configs.choices import Int4ChooseQParamsAlgorithm, Int4PackingFormat, MappingType
from qconfig.errors import FieldError, QconfigError


@pytest.mark.parametrize("spelling", ["hqq", "HQQ", Int4ChooseQParamsAlgorithm.HQQ])
def test_a_constructor_takes_a_name_in_either_case(spelling):
    """A member, its name, and its name in lower case as torchao writes it, are the same."""
    config = Int4WeightOnlyConfig(int4_choose_qparams_algorithm=spelling)
    assert config.int4_choose_qparams_algorithm is Int4ChooseQParamsAlgorithm.HQQ


def test_several_choices_by_name():
    """Every choice of a config can be given so."""
    config = Int4WeightOnlyConfig(int4_packing_format="tile_packed_to_4d")
    assert config.int4_packing_format is Int4PackingFormat.TILE_PACKED_TO_4D
    assert IntxWeightOnlyConfig(mapping_type="asymmetric").mapping_type is MappingType.ASYMMETRIC


def test_a_name_of_no_member_is_refused():
    """A slip is an error that lists the members."""
    with pytest.raises(FieldError, match="int4_packing_format has a wrong type") as caught:
        Int4WeightOnlyConfig(int4_packing_format="plian")
    assert "'PLAIN'" in caught.value.expected


@pytest.mark.parametrize("value", [torch.float8_e5m2, DType.FLOAT8_E5M2, "float8_e5m2"])
def test_an_element_type_may_be_torchs(value):
    """The element type of a calibration is given as torch's, as ours, or by name."""
    assert CalibrationConfig(quant_dtype=value).quant_dtype == "float8_e5m2"


def test_documents_have_one_spelling():
    """In a document, a choice in lower case is refused."""
    document = config_to_dict(Int4WeightOnlyConfig()) | {"int4_packing_format": "plain"}
    with pytest.raises(QconfigError, match="/int4_packing_format"):
        config_from_dict(document)
