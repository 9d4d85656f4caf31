"""The attributes of tensors that are operations: `T`, `mT`, `H`, `mH`.

A rule runs them, as it does their descriptors. They are properties of the class too, since Dynamo
reads attributes of what it has traced with functions of subclasses switched off.
"""

from typing import Any, ClassVar

import torch

from qconfig.tensors.quant_tensor.dispatch import run_torch
from qconfig.tensors.quant_tensor.inner import InnerTensors
from qconfig.tensors.quant_tensor.rules import RuleTable


class TransposedTensors(InnerTensors):
    """The attributes; a part of QuantTensor."""

    rules: ClassVar[RuleTable]

    @property
    def T(self) -> Any:  # type: ignore[override]  # noqa: N802
        """The tensor with its dimensions in reverse order."""
        return self._run(torch.Tensor.T)

    @property
    def mT(self) -> Any:  # type: ignore[override]  # noqa: N802
        """The tensor with its last two dimensions exchanged."""
        return self._run(torch.Tensor.mT)

    @property
    def H(self) -> Any:  # type: ignore[override]  # noqa: N802
        """The transposed matrix."""
        return self._run(torch.Tensor.H)

    @property
    def mH(self) -> Any:  # type: ignore[override]  # noqa: N802
        """The tensor with its last two dimensions exchanged."""
        return self._run(torch.Tensor.mH)

    def _run(self, attribute: Any) -> Any:
        return run_torch(self.rules, attribute.__get__, (self,), {})
