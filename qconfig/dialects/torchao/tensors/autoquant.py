"""Weights that autoquant of torchao 0.5 to 0.16 chose: subclasses of the classes that configs make.

They have the fields of those and their values. Some computed products with another kernel.
"""

import attrs

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors import activation_changes as changes
from qconfig.dialects.torchao.tensors.activation import read_dynamic
from qconfig.dialects.torchao.tensors.affine import read_affine
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, inner
from qconfig.dialects.torchao.tensors.refusals import refused

_KERNEL = (
    "products: torchao multiplied with another kernel, which rounds codes times scale, or their "
    "products with the activation, one by one: an output differs by at most twice the type's "
    "epsilon times the sum of its products' magnitudes and the bias's"
)
_OTHER_KERNELS = frozenset(
    {
        "AQFloat8WeightOnlyQuantizedLinearWeight",
        "AQInt8WeightOnlyQuantizedLinearWeight2",
        "AQInt8WeightOnlyQuantizedLinearWeight3",
    }
)


def read_chosen(stored: Stored, context: Context) -> Read:
    """Read a weight that autoquant chose, by its fields.

    Raises:
        MigrationError: a class of 0.4, which has none of these fields, or what is inside cannot be
            read.
        ContainerError or UnknownFieldError: fields that no release wrote.
    """
    if "original_weight_tensor" in stored.fields:
        return read_dynamic(stored, context)
    if "tensor_impl" in stored.fields or "layout_tensor" in stored.fields:
        read = read_affine(stored, context)
        return read.noting(changes=(_KERNEL,)) if stored.name in _OTHER_KERNELS else read
    weight = stored.fields.get("weight")
    if weight is None or isinstance(weight, LazyTensor):
        raise refused(attrs.evolve(stored, name="Int8DynamicallyQuantizedLinearWeight"))
    fields = Fields(stored)  # of a BFloat16Tensor around a weight with quantized activations
    result = inner(context, fields.take("weight"), "weight").inside(stored.name)
    fields.done()
    return result.noting(changes=(changes.CAST,))
