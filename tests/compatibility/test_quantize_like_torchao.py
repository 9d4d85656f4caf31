"""Whole models quantized by torchao 0.18 and by qconfig from one mapping: same names, same bits."""

import json
import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn

import qconfig
from qconfig import Int8Tensor
from tests.tensors.torchao_peer import torchao_int8

MAPPINGS = [
    {"_default": "row"},
    {"_default": "group", "head": None},
    {"head.weight": "tensor", r"re:layers\.0\.[qk]": "row"},
    {r"re:layers\.\d+\.q": None, r"re:layers\.\d+\.[qk]": "group", "_default": "tensor"},
    {"layers.1.q.weight": "group", r"re:layers\.0\.[qk]\.weight": "row", "layers.1.k": None},
    {"emb": "row", "head": "row"},
    {"re:emb": "row"},
    {r"re:.*emb.*": None, r"re:.*\.norm": None, "_default": "row"},
    {"norm": None, "layers.0.norm.weight": None, "_default": "group"},
]


class Block(nn.Module):
    """Two linears and a norm."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)


def model():
    """Return an embedding, two blocks, a norm and a head, in bfloat16, always with equal values."""
    torch.manual_seed(0)
    parts = {"emb": nn.Embedding(8, 16), "layers": nn.ModuleList([Block(), Block()])}
    parts |= {"norm": nn.LayerNorm(16), "head": nn.Linear(16, 8)}
    return nn.ModuleDict(parts).bfloat16()


def theirs_and_document(mapping):
    """Return the model that torchao quantized, and torchao's own document of the mapping."""
    _, granularity = torchao_int8()
    from torchao.core.config import config_to_dict
    from torchao.quantization import FqnToConfig, Int8WeightOnlyConfig, quantize_

    kinds = {
        "row": granularity.PerRow(),
        "tensor": granularity.PerTensor(),
        "group": granularity.PerGroup(8),
    }
    given = OrderedDict(
        (key, use and Int8WeightOnlyConfig(version=2, granularity=kinds[use]))
        for key, use in mapping.items()
    )
    net = model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao announces the end of _default
        config = FqnToConfig(given)
        document = json.loads(json.dumps(config_to_dict(config)))
        quantize_(net, config, filter_fn=None)
    return net, document


@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
def test_same_names_and_bits(mapping):
    """From torchao's own document `quantize_` makes the tensors that torchao's `quantize_` made."""
    their_tensor, _ = torchao_int8()
    theirs, document = theirs_and_document(mapping)
    ours = model()
    qconfig.quantize_(ours, qconfig.config_from_dict(document))
    found = {n: p for n, p in ours.named_parameters() if isinstance(p, Int8Tensor)}
    expected = {n: p for n, p in theirs.named_parameters() if isinstance(p, their_tensor)}
    assert found.keys() == expected.keys() != set()
    for name, tensor in found.items():
        assert torch.equal(tensor.qdata, expected[name].qdata)
        assert torch.equal(tensor.scale, expected[name].scale)


def test_exact_name_and_pattern_for_one_parameter():
    """An exact name wins over a pattern for the same parameter; torchao applies both and raises."""
    mapping = {"head.weight": "group", r"re:head\.w.*": "row"}
    with pytest.raises(NotImplementedError, match="unimplemented operator"):
        theirs_and_document(mapping)
    net = model()
    group, row = (qconfig.Int8WeightOnlyConfig(g) for g in (qconfig.PerGroup(8), qconfig.PerRow()))
    rules = (qconfig.Rule("head.weight", "group"), qconfig.Rule(r"re:head\.w.*", "row"))
    config = qconfig.FqnToConfig({"group": group, "row": row}, rules)
    plan = qconfig.quantize_(net, config)
    assert net["head"].weight.block_size == (1, 8)
    assert any("is shadowed" in note for note in plan.notes)
