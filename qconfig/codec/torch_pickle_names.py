"""torch's own names in a pickle: a closed table of what each stands for.

No module is imported and no class looked up: a name is a key of a table here, or it is refused. The
names and the arguments of the rebuild calls are those of `torch/_utils.py`, `torch/_tensor.py` and
`torch/serialization.py`, torch 1.6 to 2.13.
"""

from enum import Enum, unique

from qconfig.codec.dtypes import DType
from qconfig.codec.torch_storages import StorageType

_STORAGES = {
    "Byte": DType.UINT8,
    "Char": DType.INT8,
    "Short": DType.INT16,
    "Int": DType.INT32,
    "Long": DType.INT64,
    "Half": DType.FLOAT16,
    "BFloat16": DType.BFLOAT16,
    "Float": DType.FLOAT32,
    "Double": DType.FLOAT64,
    "Bool": DType.BOOL,
    "ComplexFloat": DType.COMPLEX64,
    "ComplexDouble": DType.COMPLEX128,
}


@unique
class Known(Enum):
    """What torch's and Python's own names stand for, where they are called."""

    ORDERED_DICT = "collections.OrderedDict"
    PARTIAL = "functools.partial"
    GETATTR = "builtins.getattr"
    TENSOR_V2 = "torch._utils._rebuild_tensor_v2"
    TENSOR_V3 = "torch._utils._rebuild_tensor_v3"
    PARAMETER = "torch._utils._rebuild_parameter"
    PARAMETER_WITH_STATE = "torch._utils._rebuild_parameter_with_state"
    WRAPPER_SUBCLASS = "torch._utils._rebuild_wrapper_subclass"
    FROM_TYPE = "torch._tensor._rebuild_from_type_v2"
    LAYOUT = "torch.serialization._get_layout"
    DEVICE = "torch.device"
    SIZE = "torch.Size"
    PLAIN_TENSOR = "torch.Tensor"
    PLAIN_PARAMETER = "torch.nn.parameter.Parameter"
    PLAIN_BUFFER = "torch.nn.parameter.Buffer"


TORCH_NAMES: dict[str, Known | StorageType | DType] = {
    **{known.value: known for known in Known},
    "__builtin__.getattr": Known.GETATTR,
    "torch.tensor._rebuild_from_type_v2": Known.FROM_TYPE,
    "torch._tensor._rebuild_from_type": Known.FROM_TYPE,
    "torch.tensor._rebuild_from_type": Known.FROM_TYPE,
    "torch.storage.UntypedStorage": StorageType(None),
    **{f"torch.{name}Storage": StorageType(dtype) for name, dtype in _STORAGES.items()},
    **{f"torch.{dtype.value}": dtype for dtype in DType},
}

LAYOUTS = frozenset(
    {
        "torch.strided",
        "torch.sparse_coo",
        "torch.sparse_csr",
        "torch.sparse_csc",
        "torch.sparse_bsr",
        "torch.sparse_bsc",
        "torch._mkldnn",
        "torch.jagged",
    }
)

UNREAD = {
    "_codecs.encode": "bytes are not read, nor are numpy's values, which hold some",
    "torch._utils._rebuild_sparse_tensor": "sparse tensors are not read",
    "torch._utils._rebuild_sparse_csr_tensor": "sparse tensors are not read",
    "torch._utils._rebuild_nested_tensor": "nested tensors are not read",
    "torch._utils._rebuild_qtensor": "tensors of torch's own quantized types are not read",
    "torch._utils._rebuild_meta_tensor_no_storage": "tensors on the meta device have no elements",
    "torch._utils._rebuild_device_tensor_from_numpy": (
        "move the tensors to the CPU, save them again"
    ),
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": (
        "move the tensors to the CPU, save them again"
    ),
    "torch.jit._pickle.build_tensor_from_id": "TorchScript archives are not read",
}
"""Hints for names of torch that are known and refused."""
