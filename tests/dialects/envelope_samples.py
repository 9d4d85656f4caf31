"""Envelopes that the tests of the dialect share."""

import json
from pathlib import Path

from qconfig.configs import (
    FqnToConfig,
    Int8WeightOnlyConfig,
    Precedence,
    Rule,
)

DATA = Path(__file__).parents[1] / "data" / "torchao_configs"


BY_RELEASE = json.loads((DATA / "int8_by_release.json").read_text("utf-8"))


INT8 = "Int8WeightOnlyConfig"


PER_ROW = Int8WeightOnlyConfig()


DEFAULT_AND_NONE = FqnToConfig(
    configs={"c0": PER_ROW},
    rules=(Rule("model.layers.0.mlp.down_proj", None),),
    default="c0",
    precedence=Precedence.PARAMETERS_FIRST,
)


def envelope(name=INT8, version=2, **data):
    """Return a document in torchao's form."""
    return {"_type": name, "_version": version, "_data": data}
