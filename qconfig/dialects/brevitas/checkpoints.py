"""The dialects of Brevitas' checkpoints: importing this module adds them to the table."""

from qconfig.checkpoints.dialects import dialects
from qconfig.dialects.brevitas.pickles import BrevitasPickles
from qconfig.dialects.brevitas.safetensors_files import BrevitasSafetensors

dialects.add(BrevitasSafetensors())
dialects.add(BrevitasPickles())
