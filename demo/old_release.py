"""A stand-in for the release that wrote the old checkpoint.

torchao 0.9 to 0.17 kept such weights as AffineQuantizedTensor: codes under another name, scales
without the dimension that they reduce, zero points in int64. No release writes that form today, so
the codes of the new checkpoint are written in it here. The config beside them is the one that went
with it, `demo/minilm_v1.json`.
"""

from pathlib import Path
from typing import Any

import torch

import qconfig
from qconfig import Int8Tensor
from qconfig.checkpoints.checkpoint import SINGLE_FILE
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.documents import load_document
from qconfig.codec.layout_values import wrapped
from qconfig.migrations.int8_tensor_layout import Int8TensorLayoutV1


def write_old_checkpoint(source: Path, target: Path, config_file: Path) -> None:
    """Write a checkpoint of today in layout and config version 1.

    Args:
        source: the checkpoint of today.
        target: the directory to make.
        config_file: a config document of version 1.

    Raises:
        QconfigError: of whatever kind; `target` is then absent.
    """
    checkpoint = open_checkpoint(source)
    layouts = {
        name: wrapped(_old_form(tensor))
        for name, tensor in qconfig.load_checkpoint(source).items()
        if isinstance(tensor, Int8Tensor)
    }
    document = load_document(config_file)
    document.pop("$schema", None)
    config_json: dict[str, Any] = dict(checkpoint.config_json or {})
    config_json["quantization_config"] = {"quant_method": "qconfig", "config": document}
    write_checkpoint(
        target,
        {SINGLE_FILE: ShardContents(checkpoint.plain, layouts)},
        config_json,
        origin=checkpoint,
    )


def _old_form(tensor: Int8Tensor) -> Int8TensorLayoutV1:
    scale = tensor.scale.squeeze(-1)
    return Int8TensorLayoutV1(
        int_data=tensor.qdata,
        scale=scale,
        block_size=tensor.block_size,
        dtype=tensor.shown_dtype,
        zero_point=torch.zeros(scale.shape, dtype=torch.int64),
    )
