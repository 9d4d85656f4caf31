"""The steps on files: validate, plan, quantize, inspect, and the upgrade of an old checkpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import qconfig
from demo.measures import size_rows, sqnr_of_all, sqnr_table, unequal
from demo.old_release import write_old_checkpoint
from demo.screen import Screen
from demo.weights import fresh_copy, is_untouched
from qconfig.checkpoints.open import open_checkpoint

FOLDER = Path(".demo")
FLOAT, INT8 = FOLDER / "minilm", FOLDER / "minilm-int8"
OLD, UPGRADED = FOLDER / "minilm-old", FOLDER / "minilm-upgraded"
REPORT = FOLDER / "upgrade.json"
OLD_CONFIG = Path("demo/minilm_v1.json")


def prepare(screen: Screen) -> None:
    """Make `.demo/` anew, with a copy of the float model. Raises NoWeightsError."""
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    fresh_copy(FLOAT)
    screen.say(f"all-MiniLM-L6-v2, float32, from the installed package, is copied to {FLOAT}/")


def validate(screen: Screen) -> None:
    """Check the two configs."""
    screen.say("A config written by hand, and the one that an old release would have written.")
    screen.qconfig("validate demo/minilm.json demo/minilm_v1.json")


def plan(screen: Screen) -> None:
    """Show what would be done, and why one layer is left alone."""
    screen.say("Which layer gets what; only headers are read.")
    screen.qconfig("plan .demo/minilm demo/minilm.json")
    screen.qconfig("explain demo/minilm.json encoder.layer.0.attention.output.dense")


def quantize(screen: Screen) -> None:
    """Quantize file to file, and check every stored value."""
    screen.say("File to file, one tensor at a time; the target appears whole or not at all.")
    screen.qconfig("quantize .demo/minilm .demo/minilm-int8 --config demo/minilm.json")
    screen.qconfig("verify .demo/minilm-int8 --strict")
    screen.check("the source has the bytes it had", holds=is_untouched(FLOAT))


def inspect(screen: Screen) -> None:
    """Show sizes and the noise of quantization."""
    screen.qconfig("inspect .demo/minilm-int8 --no-tensors")
    rows = size_rows(qconfig.inspect_checkpoint(FLOAT), qconfig.inspect_checkpoint(INT8))
    columns = ["part", "elements", "MB before", "MB after", "bits before", "bits after"]
    screen.table("Sizes, and bits per weight with scales counted", columns, rows)
    ratios = sqnr_of_all(qconfig.load_checkpoint(FLOAT), qconfig.load_checkpoint(INT8))
    title = "SQNR in dB of each dequantized weight: attention per row, MLP in groups of 64"
    screen.table(title, *sqnr_table(ratios))
    worst = min(ratios, key=lambda name: ratios[name])
    screen.say(f"  least {ratios[worst]:.2f} dB, of {worst}")


def upgrade(screen: Screen) -> None:
    """Write the model as an old release did, upgrade it, and compare every bit."""
    write_old_checkpoint(INT8, OLD, OLD_CONFIG)
    screen.say(f"The same model as torchao's releases up to 0.17 kept it is written to {OLD}/")
    screen.qconfig("inspect .demo/minilm-old --no-tensors")
    screen.qconfig("upgrade .demo/minilm-old .demo/minilm-upgraded --report .demo/upgrade.json")
    screen.qconfig("verify .demo/minilm-upgraded --strict")
    screen.qconfig("inspect .demo/minilm-upgraded --no-tensors")
    screen.say()
    _check_upgrade(screen)


def _check_upgrade(screen: Screen) -> None:
    report: dict[str, Any] = json.loads(REPORT.read_text(encoding="utf-8"))["result"]
    tensors = report["tensors"]
    steps = sum(len(t["steps"]) for t in tensors)
    copied, computed = report["copied_bytes"], report["computed_bytes"]
    screen.say(
        f"{len(tensors)} tensors took {steps} steps; {copied:,} bytes copied as ranges, "
        f"{computed:,} computed (zero points, int64 to int8)"
    )
    new, upgraded = (qconfig.load_checkpoint(path) for path in (INT8, UPGRADED))
    different = unequal(new, upgraded)
    count = sum(isinstance(t, qconfig.Int8Tensor) for t in upgraded.values())
    screen.check(
        f"codes and scales of {count} upgraded weights are bit for bit the new ones",
        holds=count == len(tensors) > 0 and not different,
    )
    stored: list[Any] = list(open_checkpoint(UPGRADED).layouts.values())
    zeros = [layout.zero_point.load() for layout in stored]
    screen.check(
        "the zero points that the old form had are in the file, and all are 0",
        holds=len(zeros) == count and not any(bool(z.any()) for z in zeros),
    )
    screen.check("the old config assigns the same configs to the same tensors", holds=_same_plan())


def _same_plan() -> bool:
    plans = [qconfig.plan(FLOAT, qconfig.load_config(p)) for p in ("demo/minilm.json", OLD_CONFIG)]
    new, old = (
        {e.fqn: p.configs[e.config] if e.layout and e.config else None for e in p.entries}
        for p in plans
    )
    return new == old
