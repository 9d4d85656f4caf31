"""The plain tensors of a file, as a state_dict of quantized modules where they are one."""

from collections.abc import Mapping
from pathlib import Path

from qconfig.checkpoints.guidance import Guidance
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.expectations import (
    Resolved,
    floats_left,
    reached_roles,
    resolve,
    role_config,
)
from qconfig.dialects.brevitas.quantizer_keys import has_quantizers
from qconfig.dialects.brevitas.stages import Settings, Stage
from qconfig.dialects.brevitas.state_dict import converted
from qconfig.errors import QconfigError, raise_problems
from qconfig.versioning import Layout

UNCONVERTED = (
    "these are the names of Brevitas' quantizers; an upgrade converts them, with the config that "
    "the model was quantized with (--config)"
)
NOTHING_QUANTIZED = (
    "nothing here is of a quantizer: Brevitas saves none of what is constant, and weights before "
    "they are quantized"
)


def converted_state(
    plain: Mapping[str, LazyTensor],
    layouts: Mapping[str, Layout],
    guidance: Guidance | None,
    path: Path,
) -> tuple[dict[str, LazyTensor], tuple[str, ...]]:
    """Return the plain tensors of a file under our names, and notes on all that was done.

    Args:
        plain: tensors by name.
        layouts: quantized tensors beside them.
        guidance: what the caller says; None to leave names as they are.
        path: of the file, for errors.

    Raises:
        QconfigError: keys without a place, tensors that are missing, a config that the file
            contradicts, or none where one is needed.
    """
    quantizers = has_quantizers(plain)
    if guidance is None and quantizers:
        return dict(plain), (UNCONVERTED,)
    if guidance is None or (guidance.is_empty and not quantizers):
        return dict(plain), () if layouts else (NOTHING_QUANTIZED,)
    try:
        resolved = resolve(guidance.config, plain, layouts)
        stage = _converted(plain, resolved, guidance)
    except QconfigError as error:
        raise_problems([p.at(file=path) for p in error.problems], file=path)
        raise
    left = floats_left(guidance.config, resolved, plain)
    return dict(stage.state), (*map(str, stage.changes), *stage.ambiguities, *left)


def _converted(plain: Mapping[str, LazyTensor], resolved: Resolved, guidance: Guidance) -> Stage:
    settings = Settings(
        lambda layer, role: role_config(resolved, layer, role),
        reached_roles(resolved, plain),
        guidance.missing,
        guidance.dropped,
    )
    return converted(plain, settings)
