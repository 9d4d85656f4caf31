"""The dialects of torchao's checkpoints: importing this module adds them to the table."""

from qconfig.checkpoints.dialects import dialects
from qconfig.dialects.torchao.flattened import TorchaoSafetensors
from qconfig.dialects.torchao.pickles import TorchaoPickles

dialects.add(TorchaoSafetensors())
dialects.add(TorchaoPickles())
