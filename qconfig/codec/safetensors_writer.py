"""Writing safetensors files of any size with one tensor in memory at a time.

Tensors that are still the bytes of another file are copied by the kernel. The order is that of
safetensors 0.8.0 (widest dtypes first, so that all data is aligned, then by name), and for the same
tensors the files are equal byte by byte.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from attrs import frozen

from qconfig.codec.byte_copy import copy_range, write_all
from qconfig.codec.dtypes import DType
from qconfig.codec.limits import DEFAULT_LIMITS, Limits
from qconfig.codec.raw_memory import byte_view
from qconfig.codec.safetensors_entries import METADATA_KEY, header_shape
from qconfig.codec.safetensors_header import LENGTH_BYTES, parse_header
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.tensor_values import ByteRange, LazyTensor, nbytes
from qconfig.errors import ContainerError, FieldError, StorageError
