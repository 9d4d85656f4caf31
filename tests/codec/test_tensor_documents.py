"""Tensors in documents: every dtype, every shape, exactly those bits back."""

import base64

import pytest
import torch

from qconfig.codec import strict_json
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_documents import (
    tensor_bytes,
    tensor_from_document,
    tensor_of_bytes,
    tensor_to_document,
)
from qconfig.errors import FieldError, QconfigError, UnknownFieldError, UnknownNameError

QUANTIZED = {"qint8", "quint8", "qint32", "quint4x2", "quint2x4"}
DTYPES = [dtype for dtype in DType if dtype not in QUANTIZED]
SHAPES = [(), (1,), (3, 2), (0,), (2, 0, 3)]


def patterned(dtype, shape):
    """Return a tensor whose bytes are all different where there are few."""
    count = dtype.itemsize
    for n in shape:
        count *= n
    step = 1 if dtype is DType.BOOL else 37
    raw = bytes((i * step + 1) % (2 if dtype is DType.BOOL else 251) for i in range(count))
    return tensor_of_bytes(raw, dtype, shape), raw


def test_table_is_torchs():
    """The table has every dtype of the installed torch."""
    known = {str(d).removeprefix("torch.") for d in vars(torch).values() if type(d) is torch.dtype}
    assert known <= set(DType)


@pytest.mark.parametrize("dtype", DTYPES)
def test_itemsize_is_torchs(dtype):
    """Bytes of an element are those that torch stores."""
    assert dtype.itemsize == dtype.to_torch().itemsize


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(dtype, shape):
    """A tensor of any dtype and shape comes back from JSON text with its very bits."""
    tensor, raw = patterned(dtype, shape)
    text = strict_json.dumps(tensor_to_document(tensor))
    back = tensor_from_document(strict_json.loads(text))
    assert back.dtype is dtype.to_torch()
    assert tuple(back.shape) == shape
    assert tensor_bytes(back) == raw


def test_document_in_full():
    """The document of a small tensor, character by character."""
    assert tensor_to_document(torch.tensor([[1.0]], dtype=torch.bfloat16)) == {
        "type": "Tensor",
        "dtype": "bfloat16",
        "shape": [1, 1],
        "data": "gD8=",
    }


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[:, ::2],
        lambda t: t[1:, 1:],
        lambda t: t.expand(2, 4, 6),
        lambda t: t.unsqueeze(0).transpose(0, 2),
        torch.nn.Parameter,
        lambda t: t.clone().requires_grad_(),
    ],
)
def test_strides_do_not_matter(view):
    """A view is written as its elements in row-major order."""
    tensor = view(torch.arange(24, dtype=torch.float32).reshape(4, 6))
    back = tensor_from_document(tensor_to_document(tensor))
    assert torch.equal(back, tensor)
    assert back.is_contiguous()


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_conjugate_views_are_resolved(dtype):
    """A lazy conjugate, and its lazy negative part, are written as what they show."""
    tensor = torch.tensor([1 + 2j, 3 - 4j]).to(dtype)
    assert tensor_from_document(tensor_to_document(tensor.conj())).tolist() == [1 - 2j, 3 + 4j]
    negative = torch.tensor([1 + 2j]).conj().imag
    assert negative.is_neg()
    assert tensor_from_document(tensor_to_document(negative)).tolist() == [-2.0]


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (DType.FLOAT32, "0100807f"),
        (DType.FLOAT32, "efbeadff"),
        (DType.FLOAT32, "00000080"),
        (DType.BFLOAT16, "817f"),
        (DType.FLOAT16, "017e"),
        (DType.FLOAT64, "010000000000f07f"),
        (DType.FLOAT8_E4M3FN, "ff"),
        (DType.FLOAT8_E5M2, "7d"),
    ],
)
def test_payload_of_nan_is_kept(dtype, bits):
    """NaNs with a payload, signalling ones and minus zero keep their bits."""
    raw = bytes.fromhex(bits)
    tensor = tensor_of_bytes(raw, dtype, (1,))
    assert tensor_bytes(tensor_from_document(tensor_to_document(tensor))) == raw


def test_tensor_owns_its_bytes():
    """The tensor of a document does not share memory with anything."""
    raw = bytearray(b"\x01\x02")
    tensor = tensor_of_bytes(raw, DType.INT8, (2,))
    raw[0] = 9
    assert tensor.tolist() == [1, 2]


class Wrapped(torch.Tensor):
    """A subclass of Tensor."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.empty(2, device="meta"),
        lambda: torch.ones(2).as_subclass(Wrapped),
        lambda: [1.0, 2.0],
    ],
)
def test_tensor_that_is_not_plain(make):
    """What has no plain bytes is refused rather than written as something else."""
    with pytest.raises(FieldError):
        tensor_to_document(make())


def document(**changes):
    """Return the document of two int8 elements with other values for some keys."""
    base = {"type": "Tensor", "dtype": "int8", "shape": [2], "data": "AQI="}
    return {k: v for k, v in (base | changes).items() if v is not ...}


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            document(type="tensor"),
            FieldError,
            (
                "not a tensor\n  found: {'type': 'tensor', 'dtype': 'int8', 'shape': [2], "
                "'data': 'AQI='}\n  expected: an object of type \"Tensor\""
            ),
        ),
        (
            document(extra=1),
            UnknownFieldError,
            (
                "/extra: unknown field\n  found: 'extra'\n"
                "  expected: ('type', 'dtype', 'shape', 'data')"
            ),
        ),
        (
            document(dtype="int9"),
            UnknownNameError,
            (
                "/dtype: unknown dtype\n  found: 'int9'\n"
                "  expected: a dtype name of torch 2.13, such as 'bfloat16'\n"
                "  hint: did you mean 'int8'?"
            ),
        ),
        (
            document(dtype="torch.int8"),
            FieldError,
            "/dtype: wrong dtype\n  found: 'torch.int8'\n  expected: a name such as 'int8'",
        ),
        (
            document(data="AQI"),
            FieldError,
            "/data: data is not base64\n  found: 'AQI'\n  expected: standard base64 with padding",
        ),
        (
            document(data="AQ I="),
            FieldError,
            "/data: data is not base64\n  found: 'AQ I='\n  expected: standard base64 with padding",
        ),
        (
            document(data=...),
            FieldError,
            "/data: data is not base64\n  found: None\n  expected: a string",
        ),
        (
            document(data="AQ=="),
            FieldError,
            "/data: data has a wrong length\n  found: '1 bytes'\n  expected: 2 bytes for int8 [2]",
        ),
        (
            document(shape=[-1]),
            FieldError,
            (
                "/shape: wrong shape\n  found: [-1]\n"
                "  expected: sizes: at most 16 (Limits.rank); each, and their product: "
                "at most 281474976710655 (Limits.dimension)"
            ),
        ),
    ],
    ids=lambda v: None if isinstance(v, type) else str(v)[:30],
)
def test_error_text(data, error, text):
    """A tensor document that is wrong gives an error with place, finding and what is allowed."""
    with pytest.raises(error) as caught:
        tensor_from_document(data)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "shape", [2, "2", [2.0], [True], [2**48], [2**40, 2**40], [1] * 17, None, [None]], ids=str
)
def test_shape_that_is_none(shape):
    """A shape is a list of at most 16 sizes whose product a file could hold."""
    with pytest.raises(FieldError, match="wrong shape"):
        tensor_from_document(document(shape=shape))


def test_huge_shape_allocates_nothing():
    """A shape that promises terabytes is refused by the length of the data."""
    with pytest.raises(FieldError, match="data has a wrong length"):
        tensor_from_document(document(shape=[2**40]))


@pytest.mark.parametrize("data", [None, 3, [], "Tensor", b"", {}])
def test_value_that_is_no_tensor(data):
    """What is no object of type Tensor is refused with an error of ours."""
    with pytest.raises(QconfigError, match="not a tensor"):
        tensor_from_document(data)


def test_data_is_little_endian():
    """The bytes of a document are little-endian, wherever it was written."""
    text = tensor_to_document(torch.tensor([1], dtype=torch.int32))["data"]
    assert base64.b64decode(text) == b"\x01\x00\x00\x00"
