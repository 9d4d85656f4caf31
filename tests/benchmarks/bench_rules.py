"""Matching rules and reading documents, beside torchao 0.18.

Run: `python -m tests.benchmarks.bench_rules`. Times are CPU seconds, medians of a few runs.

torchao's matching is measured as it runs for one module in `quantize_`: its three functions, with
every config None, so that nothing but matching is done. Its work for one leaf module does not
depend on the others, so a sample of names is timed and scaled to all. What `quantize_` does beyond
that (containers list all parameters below them) is left out, in torchao's favour.
"""

import json
import random
import statistics
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import torch

from qconfig.builders.base import Target
from qconfig.codec import strict_json
from qconfig.codec.converter import structure_any
from qconfig.codec.dtypes import DType
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, Precedence, Rule
from qconfig.engine.plan import make_plan
from qconfig.rules.lint import check_rules
from qconfig.rules.matcher import RuleSet

warnings.simplefilter("ignore")
LAYERS = 60
SAMPLE = 500


def median_seconds(function: Callable[[], object], runs: int = 5) -> float:
    """Return the median CPU time of a few runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times)


def moe_targets(experts: int) -> list[Target]:
    """Return the parameters of a mixture of experts of 60 layers."""
    named = [("model.embed_tokens", "Embedding"), ("lm_head", "Linear")]
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        named += [(f"{layer}.self_attn.{p}_proj", "Linear") for p in "qkvo"]
        named += [(f"{layer}.{n}_layernorm", "RMSNorm") for n in ("input", "post_attention")]
        named += [(f"{layer}.mlp.gate", "Linear")]
        named += [
            (f"{layer}.mlp.{block}.{p}_proj", "Linear")
            for block in ["shared_experts", *(f"experts.{e}" for e in range(experts))]
            for p in ("gate", "up", "down")
        ]
    return [Target(f"{m}.weight", (64, 64), DType.BFLOAT16, (c, "Module")) for m, c in named]


def layer_patterns() -> list[str]:
    """Return 300 regular expressions: five a layer, as a per-layer search writes them."""
    kinds = [
        r"re:model\.layers\.{}\.self_attn\.(q|k|v|o)_proj",
        r"re:model\.layers\.{}\.mlp\.experts\.\d+\.(gate|up)_proj",
        r"re:model\.layers\.{}\.mlp\.experts\.\d+\.down_proj",
        r"re:model\.layers\.{}\.mlp\.shared_experts\..*",
        r"re:.*\.layers\.{}\..*norm.*",
    ]
    return [kind.format(i) for i in range(LAYERS) for kind in kinds]


def broad_patterns() -> list[str]:
    """Return 300 regular expressions without a layer: alternatives and ends, few hits."""
    ends = ["gate_proj", "up_proj", "(gate|down)_proj", "[qkvo]_proj", r"\w+norm"]
    parts = [f"block{i}" for i in range(59)] + ["mlp"]
    return [rf"re:.*\.{part}\.(?:.*\.)?{end}" for part in parts for end in ends]


def document(patterns: list[str]) -> FqnToConfig:
    """Return rules with torchao's precedence."""
    rules = tuple(Rule(p, None, optional=True) for p in patterns)
    return FqnToConfig(rules=rules, precedence=Precedence.PARAMETERS_FIRST)


def torchao_matching(targets: list[Target], patterns: list[str]) -> None:
    """Do for each module what torchao's `quantize_` does, with every config None."""
    from torchao.quantization import quant_api

    config = quant_api.FqnToConfig(OrderedDict.fromkeys(patterns))
    module = torch.nn.Linear(8, 8, bias=False, device="meta")
    for target in targets:
        name = target.module
        if quant_api.fqn_matches_fqn_config(
            name, config
        ) or quant_api._module_param_matches_fqn_config(module, name, config):
            quant_api._fqn_to_config_handler(module, name, config)


def match(config: FqnToConfig, targets: list[Target]) -> None:
    """Check, compile, index and match, as a plan does."""
    RuleSet(config).assign(targets)


def read(text: str) -> None:
    """Take JSON text to a config whose rules are checked."""
    check_rules(structure_any(strict_json.loads(text)))


def torchao_read(text: str) -> None:
    """Take JSON text to torchao's config."""
    from torchao.core.config import config_from_dict

    config_from_dict(json.loads(text))


def bench_matching() -> None:
    """Print matching times for growing numbers of names."""
    print("| rules | names | qconfig s | us a name | torchao s (scaled) | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind, patterns in (("per layer", layer_patterns()), ("broad", broad_patterns())):
        config = document(patterns)
        for experts in (28, 60, 124, 252, 508):
            targets = moe_targets(experts)
            sample = random.Random(0).sample(targets, SAMPLE)
            ours = median_seconds(partial(match, config, targets))
            theirs = median_seconds(partial(torchao_matching, sample, patterns), 3)
            theirs *= len(targets) / SAMPLE
            each = ours / len(targets) * 1e6
            row = (
                f"{len(targets):,} | {ours:.3f} | {each:.1f} | {theirs:.1f} | {theirs / ours:.0f}x"
            )
            print(f"| 300 {kind} | {row} |", flush=True)


def bench_plan() -> None:
    """Print the time of a whole plan, builders asked."""
    targets = moe_targets(252)
    rules = tuple(Rule(p, "w8") for p in layer_patterns()[::5])
    config = FqnToConfig({"w8": Int8WeightOnlyConfig()}, rules, default="w8")
    seconds = median_seconds(lambda: make_plan(targets, config))
    print(f"\nA whole plan, {len(targets):,} names x {len(rules)} rules: {seconds:.2f} s")


def document_data(regex: bool) -> dict:
    """Return a document of 10,000 rules with four configs."""
    kinds = [{"type": "PerRow"}, {"type": "PerTensor"}]
    kinds += [{"type": "PerGroup", "group_size": size} for size in (64, 128)]
    configs = {
        f"c{i}": {"type": "Int8WeightOnlyConfig", "version": 3, "granularity": kind}
        for i, kind in enumerate(kinds)
    }
    name = (
        r"re:model\.layers\.{}\.mlp\.experts\.{}\.(gate|up)_proj"
        if regex
        else ("model.layers.{}.mlp.experts.{}.up_proj")
    )
    rules = [
        {"match": name.format(i, j), "use": None if j % 9 == 0 else f"c{j % 4}"}
        for i in range(80)
        for j in range(125)
    ]
    return {"type": "FqnToConfig", "version": 2, "configs": configs, "rules": rules}


def bench_documents() -> None:
    """Print the time from JSON text to checked rules, beside torchao's config_from_dict."""
    from torchao.core.config import config_to_dict
    from torchao.quantization import FqnToConfig as TorchaoMapping
    from torchao.quantization import Int8WeightOnlyConfig as TorchaoInt8
    from torchao.quantization import PerGroup, PerRow, PerTensor

    configs = [TorchaoInt8(granularity=g, version=2) for g in (PerRow(), PerTensor())]
    configs += [TorchaoInt8(granularity=PerGroup(size), version=2) for size in (64, 128)]
    print("\n| document of 10,000 rules | qconfig s | of it lint | torchao s | ratio |")
    print("|---|---:|---:|---:|---:|")
    for kind, regex in (("exact names", False), ("regular expressions", True)):
        data = document_data(regex)
        text = json.dumps(data)
        mapping = OrderedDict(
            (r["match"], None if r["use"] is None else configs[int(r["use"][1:])])
            for r in data["rules"]
        )
        other = json.dumps(config_to_dict(TorchaoMapping(mapping)))
        structured = structure_any(json.loads(text))
        lint = median_seconds(partial(check_rules, structured))
        ours = median_seconds(partial(read, text))
        theirs = median_seconds(partial(torchao_read, other), 3)
        print(f"| {kind} | {ours:.3f} | {lint:.3f} | {theirs:.3f} | {theirs / ours:.1f}x |")


if __name__ == "__main__":
    bench_matching()
    bench_plan()
    bench_documents()
