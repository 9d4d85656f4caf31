"""torchao 0.18's intx tensors, for comparison."""

import logging
import warnings
from typing import Any

import torch

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType


def torchao_intx(
    weight: torch.Tensor,
    group_size: int,
    target_dtype: DType,
    mapping_type: MappingType = MappingType.SYMMETRIC,
    *,
    scale_dtype: torch.dtype | None = None,
    algorithm: IntxChooseQParamsAlgorithm = IntxChooseQParamsAlgorithm.AFFINE,
    dynamic: bool = False,
) -> Any:
    """Return what torchao's config makes of a weight, (N, K)."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization import (
            Int8DynamicActivationIntxWeightConfig,
            IntxWeightOnlyConfig,
            quantize_,
        )
        from torchao.quantization.granularity import PerGroup
        from torchao.quantization.quant_primitives import MappingType as TheirMapping
        from torchao.quantization.quantize_.workflows.intx.intx_choose_qparams_algorithm import (
            IntxChooseQParamsAlgorithm as TheirAlgorithm,
        )

        make = Int8DynamicActivationIntxWeightConfig if dynamic else IntxWeightOnlyConfig
        config = make(
            target_dtype.to_torch(),
            PerGroup(group_size),
            TheirMapping[mapping_type.value],
            scale_dtype,
            intx_choose_qparams_algorithm=TheirAlgorithm[algorithm.value],
        )
        module = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        module.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
        quantize_(module, config)
    return module.weight
