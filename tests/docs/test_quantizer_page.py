import pytest

from tests.repository.sources import ROOT
from tests.tensors.quantizer_pairs import ACTIVATIONS, BIASES, WEIGHTS, table_of

PAGE = (ROOT / "docs" / "quant-tensors-configs.md").read_text("utf-8")


@pytest.mark.parametrize("pairs", [WEIGHTS, ACTIVATIONS, BIASES])
def test_tables_are_those_that_are_tested(pairs):
    """The page shows every pair of a Brevitas quantizer and a config that a test compares."""
    assert table_of(pairs) in PAGE


@pytest.mark.parametrize("pair", [*WEIGHTS, *ACTIVATIONS, *BIASES], ids=str)
def test_texts_are_configs(pair):
    """What the page shows of a config is Python that makes it."""
    from qconfig.configs.float_quant import FloatQuantConfig
    from qconfig.configs.granularity import PerAxis
    from qconfig.configs.groupwise_quant import (
        GroupwiseFloatQuantConfig,
        GroupwiseIntQuantConfig,
    )
    from qconfig.configs.int_quant import IntQuantConfig

    names = (
        FloatQuantConfig,
        GroupwiseFloatQuantConfig,
        GroupwiseIntQuantConfig,
        IntQuantConfig,
        PerAxis,
    )
    assert eval(pair.call, {cls.__name__: cls for cls in names}) == pair.config  # noqa: S307
