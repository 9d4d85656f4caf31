import pytest

from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig
from qconfig.engine.plan import make_plan
from qconfig.errors import PlanError


def test_configs_that_no_rule_uses_quantize_nothing_and_are_refused():
    """Configs by module name, which is torchao's form and not ours, are an error, not a no-op."""
    config = FqnToConfig({"layers.0": Int8WeightOnlyConfig()})
    with pytest.raises(PlanError, match="no rule uses a config, so nothing would") as caught:
        make_plan([], config)
    assert "layers.0" in str(caught.value.found)
    assert "names of configs, not of modules" in caught.value.hint
