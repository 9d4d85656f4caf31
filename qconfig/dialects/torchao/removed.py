"""Configs that torchao has or had and that no config here stands for: refused by name."""

from collections.abc import Mapping

from attrs import frozen

from qconfig.errors import MigrationError

_AGAIN = "quantize again from the float model with another config"
_QAT = "write a QATConfig: the fake quantizers say what was trained"
_DEQUANTIZE = "keep torchao for it, or dequantize the checkpoint there and quantize again"


@frozen
class Removed:
    """A config without a present-day form.

    Args:
        releases: torchao's releases that have it.
        why: what no config here says.
        hint: what to do.
    """

    releases: str
    why: str
    hint: str = _AGAIN


REMOVED: Mapping[str, Removed] = {
    "BlockSparseWeightConfig": Removed("0.10 to 0.18", "weights pruned in blocks"),
    "CodebookWeightOnlyConfig": Removed(
        "0.11 and later",
        "weights that are entries of a codebook",
        "its checkpoints hold plain tensors; quantize them with another config",
    ),
    "FPXWeightOnlyConfig": Removed(
        "0.10 to 0.15",
        "floats of 3 to 7 bits",
        "checkpoints of it are read; quantize again with Float8WeightOnlyConfig or "
        "MXDynamicActivationMXWeightConfig",
    ),
    "GGUFWeightOnlyConfig": Removed("0.11 and later", "blocks in superblocks", _DEQUANTIZE),
    "GPTQConfig": Removed(
        "0.16 and later",
        "GPTQ's choice of codes",
        "its base_config says what the tensors are; read that",
    ),
    "GroupwiseLutWeightConfig": Removed("0.14 and later", "weights of a lookup table", _DEQUANTIZE),
    "Int4DynamicActivationInt4WeightConfig": Removed(
        "0.10 to 0.15",
        "int4 activations",
        "upgrade its checkpoint, whose tensors are read; or quantize again with "
        "Int8DynamicActivationInt4WeightConfig",
    ),
    "IntNWeightOnlyConfig": Removed(
        "0.10 to 0.18", "a script of experiments", "write an IntxWeightOnlyConfig"
    ),
    "IntXQuantizationAwareTrainingConfig": Removed("0.10 and later", "a step of training", _QAT),
    "MXInferenceLinearConfig": Removed(
        "0.10 to 0.12",
        "MX weights whose activations stay as they are",
        "checkpoints of it are read; quantize again with MXDynamicActivationMXWeightConfig",
    ),
    "MXLinearConfig": Removed(
        "0.10 and later", "training with MX products", "training leaves float weights behind"
    ),
    "MoEQuantConfig": Removed(
        "0.11 to 0.15",
        "a wrapper for experts",
        "its base_config says what the tensors are; rules of an FqnToConfig name the experts",
    ),
    "SemiSparseWeightConfig": Removed("0.10 to 0.18", "weights of which two of four are pruned"),
    "StretchedIntxWeightConfig": Removed(
        "0.14 and later",
        "codes between the integers",
        "upgrade its checkpoint, whose tensors are read; or write an IntxWeightOnlyConfig",
    ),
    "intx_quantization_aware_training": Removed("0.9 and later", "a step of training", _QAT),
}
"""By torchao's class name."""


def refuse_removed(name: str) -> None:
    """Raise MigrationError if a class of torchao's has no form here; it names the releases."""
    found = REMOVED.get(name)
    if found is not None:
        raise MigrationError(
            f"no config here says what torchao's {name} says: {found.why}",
            pointer="/_type",
            found=name,
            expected=f"another config; torchao {found.releases} has this one",
            hint=found.hint,
        )
