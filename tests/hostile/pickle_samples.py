"""Pickles that would run something, or exhaust something, in a reader that trusts them."""

import copyreg
import ctypes
import importlib
import os
import pickle
import runpy
import subprocess

import torch

from tests.codec.torch_samples import Calls, call_of, global_of

_TEXT = b"X\x04\x00\x00\x00true"


def _named(path: str) -> bytes:
    return global_of(path) + b"(" + _TEXT + b"tR."


NAMED = {
    path: _named(path)
    for path in (
        "os.system",
        "posix.system",
        "nt.system",
        "subprocess.Popen",
        "builtins.eval",
        "builtins.exec",
        "builtins.__import__",
        "builtins.open",
        "__builtin__.eval",
        "__builtin__.exec",
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "torch.ops.load_library",
        "torch.serialization.load",
        "torch._utils._import_dotted_name",
        "torch._tensor._rebuild_from_type_v2.__globals__",
        "torch.storage._load_from_bytes",
        "torch.utils.data.DataLoader",
        "torch.package.PackageImporter",
        "numpy.core.multiarray._reconstruct",
        "pickle.loads",
        "_pickle.loads",
        "marshal.loads",
        "types.FunctionType",
        "copyreg.add_extension",
        "copyreg._reconstructor",
        "copy_reg._reconstructor",
        "functools.reduce",
        "operator.attrgetter",
        "importlib.import_module",
        "runpy.run_path",
        "torchao.quantization.quantize_",
        "qconfig.api.save",
        "",
        ".",
        "os",
        "collections.OrderedDict.fromkeys",
        "builtins.getattr.__self__",
    )
}
"""By the name that they call."""

CALLED = {
    "os.system": (os.system, "true"),
    "subprocess.run": (subprocess.run, "true"),
    "eval": (eval, "1"),
    "exec": (exec, "1"),
    "open": (open, "/etc/passwd"),
    "import": (importlib.import_module, "antigravity"),
    "run": (runpy.run_path, "x.py"),
    "pickle.loads": (pickle.loads, "N."),
    "torch.load": (torch.load, "x.pt"),
    "ctypes": (ctypes.CDLL, "libc.so.6"),
    "copyreg": (copyreg.add_extension, "os", "system", 1),
    "getattr of a module": (getattr, Calls(importlib.import_module, "os"), "system"),
    "getattr of a type": (getattr, dict, "__subclasses__"),
    "type": (type, "T", (), {}),
}
"""As Python pickles a call, by what is called."""

RAW = {
    "stack global": b"\x8c\x02os\x8c\x06system\x93" + _TEXT + b"\x85R.",
    "stack global of a dotted name": b"\x8c\x05torch\x8c\x0ahub.os.sys\x93)R.",
    "stack global of a known module": b"\x8c\x0btorch._util\x8c\x02os\x93.",
    "class of old": b"(X\x04\x00\x00\x00trueios\nsystem\n.",
    "object of old": b"(" + b"cos\nsystem\n" + _TEXT + b"o.",
    "new object": b"cos\nsystem\n" + _TEXT + b"\x85\x81.",
    "new object with keywords": b"cos\nsystem\n" + _TEXT + b"\x85}\x92.",
    "extension": b"\x82\x01" + _TEXT + b"\x85R.",
    "newlines in a name": b"cos\nsystem\n\n.",
    "spaces in a module": b"ctorch os\nsystem\n.",
    "no ascii in a name": "cos\nsyst\u0435m\n)R.".encode(),
    "a known function with a hostile class": (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\ncbuiltins\nexec\n)Nt)R."
    ),
    "getattr chain": (
        b"cbuiltins\ngetattr\n(cbuiltins\ngetattr\nctorch\nTensor\nX\x09\x00\x00\x00__class__"
        b"\x86RX\x07\x00\x00\x00__mro__tR."
    ),
    "partial of a hostile function": b"cfunctools\npartial\ncos\nsystem\n\x85R.",
    "a state that replaces methods": (
        b"ccollections\nOrderedDict\n)R}X\x08\x00\x00\x00__class__cos\nsystem\nsb."
    ),
    "nested pickle": b"C\x0dcos\nsystem\n)R..",
    "nested pickle as latin-1": (
        b"c_codecs\nencode\nX\x02\x00\x00\x00N.X\x06\x00\x00\x00latin1\x86R."
    ),
    "persistent id of text": b"Pcos\n.",
    "huge memo index": b"Nr\xff\xff\xff\xff.\x00",
    "huge integer": b"\x8b\xff\xff\xff\x7f" + bytes(100) + b".",
    "huge text": b"\x8d" + b"\xff" * 7 + b"\x7f.",
    "huge frame": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
}
"""Instruction by instruction."""


def hostile() -> dict[str, bytes]:
    """Return all of them by name."""
    called = {
        f"{name}, protocol {p}": call_of(*call, protocol=p)
        for name, call in CALLED.items()
        for p in (0, 2, 4)
    }
    return NAMED | called | RAW
