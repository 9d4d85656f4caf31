"""Files that real releases of Brevitas wrote, what these say of them, and our modules for them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors.torch import load_file
from torch import nn

from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.modules.activations import QuantIdentity, QuantReLU
from qconfig.modules.conv import QuantConv2d
from qconfig.modules.embedding import QuantEmbedding
from qconfig.modules.linear import QuantLinear
from qconfig.versioning import Config

FILES = Path(__file__).parents[2] / "data" / "brevitas" / "files"
RELEASES = ("0.8.0", "0.10.3", "0.11.0", "0.13.4")
"""Releases with many tensors and state_dicts."""
ALL_RELEASES = ("0.8.0", "0.9.1", "0.10.3", "0.11.0", "0.12.1", "0.13.4")


def facts(release: str) -> dict[str, dict[str, Any]]:
    """Return what a release says of its NamedTuples, besides tensors."""
    found: dict[str, dict[str, Any]] = json.loads((FILES / release / "facts.json").read_text())
    return found


def truth(release: str) -> dict[str, torch.Tensor]:
    """Return values, scales, zero points and integers as a release gives them."""
    return load_file(FILES / release / "quant_tensors.safetensors")


@frozen
class Case:
    """A state_dict of a release.

    Args:
        state: as `state_dict()` gave it.
        input: what the module got, or None.
        output: what it gave, in evaluation.
    """

    state: dict[str, torch.Tensor]
    input: torch.Tensor | None
    output: torch.Tensor | None


def case(release: str, name: str) -> Case | None:
    """Return a state_dict by its name; None where the release could not make it."""
    cases = torch.load(FILES / release / "states.pt", weights_only=True)
    found = cases.get(name)
    if found is None:
        return None
    return Case(dict(found["state"]), found.get("input"), found.get("output"))


WEIGHT = IntQuantConfig(narrow_range=True)
"""Brevitas' default of weights."""
LEARNED = IntQuantConfig(narrow_range=True, scale_kind="PARAMETER_FROM_STATS")
_SEEN: dict[str, Any] = {
    "scale_kind": "PARAMETER_FROM_STATS",
    "scale_statistic": "PERCENTILE",
}
ACTIVATION = IntQuantConfig(**_SEEN)
RELU = IntQuantConfig(signed=False, **_SEEN)
_CHANNELS = PerAxis(0)


def weight(**fields: Any) -> IntQuantConfig:
    """Return the config of a weight that differs from Brevitas' default."""
    return IntQuantConfig(**{"narrow_range": True, **fields})


CONFIGS: Mapping[str, Config] = {
    "default": WEIGHT,
    "learned": LEARNED,
    "learned_log_channels": weight(
        scale_kind="PARAMETER_FROM_STATS", granularity=_CHANNELS, scale_restriction="LOG_FP"
    ),
    "learned_bits": weight(bit_width=4, learned_bit_width=True),
    "learned_bits_fraction": weight(bit_width=4, learned_bit_width=True),
    "learned_bits_below": weight(bit_width=4, learned_bit_width=True),
    "constant_bits": weight(bit_width=5),
    "activations": weight(granularity=_CHANNELS, input=ACTIVATION, output=ACTIVATION),
    "partly": weight(input=ACTIVATION),
    "shifted": IntQuantConfig(
        signed=False,
        scale_statistic="MIN_MAX",
        zero_point_kind="STATS",
        input=IntQuantConfig(
            signed=False,
            scale_kind="PARAMETER_FROM_STATS",
            scale_statistic="PERCENTILE_INTERVAL",
            zero_point_kind="PARAMETER_FROM_STATS",
            zero_point_statistic="PERCENTILE",
        ),
    ),
    "relu": RELU,
    "given": IntQuantConfig(scale_kind="PARAMETER", threshold=1.0),
    "running": IntQuantConfig(),
    "running_affine": IntQuantConfig(),
    "conv": weight(bit_width=4, granularity=_CHANNELS, input=ACTIVATION),
    "embedding": LEARNED,
    "merged": WEIGHT,
    "Int8WeightPerChannelFloatMSE": weight(
        scale_kind="PARAMETER_FROM_STATS", granularity=_CHANNELS
    ),
    "e4m3_mse": FloatQuantConfig(scale_kind="PARAMETER_FROM_STATS"),
    "mxint8_mse": GroupwiseIntQuantConfig(group_size=3, scale_kind="PARAMETER_FROM_STATS"),
}
"""How the module of a state_dict quantizes, by the name of its case."""

_LAYERS: Mapping[str, Callable[[Any], tuple[str, nn.Module]]] = {
    "relu": lambda config: ("act", QuantReLU(act=config)),
    "given": lambda config: ("act", QuantIdentity(act=config)),
    "running": lambda config: ("act", QuantIdentity(act=config)),
    "running_affine": lambda config: ("act", QuantIdentity(act=config)),
    "conv": lambda config: (
        "conv",
        QuantConv2d(nn.Conv2d(2, 3, 2), weight=config, input=config.input),
    ),
    "merged": lambda config: ("conv", QuantConv2d(nn.Conv2d(2, 3, 2), weight=config)),
    "embedding": lambda config: ("emb", QuantEmbedding(nn.Embedding(5, 6), weight=config)),
}


def model(name: str) -> nn.Module:
    """Return our module for a case, with other weights than those in the file."""
    torch.manual_seed(77)
    config: Any = CONFIGS[name]
    layer, module = _LAYERS.get(name, _linear)(config)
    outer, inner = nn.Sequential(), nn.Sequential()
    inner.add_module(layer, module)
    outer.add_module("body", inner)
    return outer


def _linear(config: Any) -> tuple[str, nn.Module]:
    layer = QuantLinear(nn.Linear(6, 4), weight=config, input=config.input, output=config.output)
    return "fc", layer
