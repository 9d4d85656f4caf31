"""All functions that select, move or cut off values: one set of rules for integers and floats."""

from qconfig.tensors.quant_tensor.clamping import CLAMPS
from qconfig.tensors.quant_tensor.dropouts import DROPOUTS
from qconfig.tensors.quant_tensor.embeddings import EMBEDDINGS
from qconfig.tensors.quant_tensor.images import IMAGES
from qconfig.tensors.quant_tensor.pools import MAX_POOLS

SELECTIONS = (*MAX_POOLS, *CLAMPS, *DROPOUTS, *EMBEDDINGS, *IMAGES)
