"""More hostile checkpoints: what our own record in a header says."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.checkpoints.builders import checkpoint_of, current_layout
from tests.hostile import samples as s
from tests.hostile.items import FILE, Item

WHERE = f"{FILE}/__metadata__/qconfig"


def said(change: Callable[[str], str]) -> s.Make:
    """Return a maker of a quantized checkpoint whose record is another text."""

    def make(folder: Path) -> Path:
        checkpoint_of(folder, {"a.weight": current_layout()})
        path = folder / "model.safetensors"
        content = path.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        head = json.loads(content[8:end])
        head["__metadata__"]["qconfig"] = change(head["__metadata__"]["qconfig"])
        text = json.dumps(head).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])
        return folder

    return make


def is_said(text: str) -> s.Make:
    """Return a maker of a quantized checkpoint whose record is a given text."""
    return said(lambda _: text)


def record(**members: Any) -> s.Make:
    """Return a maker of a quantized checkpoint whose record has other members."""
    return s.quantized(lambda _, content: content.update(members))


def layout(**members: Any) -> s.Make:
    """Return a maker of a quantized checkpoint whose only layout has other members."""
    return s.quantized(lambda _, content: content["layouts"][0].update(members))


def digests(**members: Any) -> s.Make:
    """Return a maker of a quantized checkpoint whose digests have other members."""

    def change(text: str) -> str:
        content = json.loads(text)
        content["digests"] |= members
        return json.dumps(content)

    return said(change)


def spec(**members: Any) -> s.Make:
    """Return a maker of a checkpoint whose record says something else of the codes."""
    return layout(qdata={"dtype": "int8", "shape": [8, 16]} | members)


_TEXTS = {
    "no JSON": ("hello", ": not JSON"),
    "empty": ("", ": not JSON"),
    "an array": ("[]", ": the qconfig record is malformed"),
    "empty object": ("{}", ": the qconfig record is malformed"),
    "deep": ("[" * 1000, "Limits.json_depth"),
    "of 17 MiB": (" " * (17 * 2**20), "Limits.metadata_value_bytes"),
    "a flood of values": ("[" + "0," * 4_000_000 + "0]", "Limits.json_values"),
}
_MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "container true": ({"container": True}, "malformed"),
    "container 1.0": ({"container": 1.0}, "malformed"),
    "container -1": ({"container": -1}, "malformed"),
    "another member": ({"extra": 1}, "malformed"),
    "layouts that are an object": ({"layouts": {}}, "malformed"),
    "layout that is null": ({"layouts": [None]}, "/layouts/0: wrong type"),
    "layout that names code": ({"layouts": [{"type": "os.system", "version": 1}]}, "unknown type"),
    "layout that is a config": (
        {"layouts": [{"type": "Int8WeightOnlyConfig", "version": 3}]},
        "/layouts/0/type: Int8WeightOnlyConfig is not a layout",
    ),
    "100000 wrong layouts": ({"layouts": [1] * 100_000}, "/layouts/999: wrong type"),
    "tensors that are a list": ({"tensors": []}, "malformed"),
    "index -1": ({"tensors": {"a.weight": -1}}, "an index into layouts"),
    "index 10^9": ({"tensors": {"a.weight": 10**9}}, "an index into layouts"),
    "index false": ({"tensors": {"a.weight": False}}, "an index into layouts"),
    "index 0.0": ({"tensors": {"a.weight": 0.0}}, "an index into layouts"),
    "ties that are a list": ({"ties": []}, "an object of names"),
    "tie to a number": ({"ties": {"b": 1}}, "an object of names"),
}
_ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "name with an escape": ({"tensors": {"a\x1b": 0}}, "a\\x1b.qdata: an inner tensor is missing"),
    "100000 tensors": (
        {"tensors": {str(i): 0 for i in range(100_000)}},
        "0.qdata: an inner tensor is missing",
    ),
    "tie to itself": ({"ties": {"a.weight": "a.weight"}}, "a tie does not lead from a new name"),
    "ties in a ring": ({"ties": {"b": "c", "c": "b"}}, "a tie does not lead from a new name"),
    "tie to an inner tensor": ({"ties": {"b": "a.weight.scale"}}, "a tie does not lead from a new"),
    "tie with an escape": ({"ties": {"\x1b": "a.weight"}}, "a tied name has control"),
}
_LAYOUTS: dict[str, tuple[s.Make, str]] = {
    "version -1": (layout(version=-1), "/version: unknown version"),
    "version true": (layout(version=True), "/version: version must be an integer"),
    "product beyond 2^64": (spec(shape=[2**40, 2**40]), "Limits.dimension"),
    "negative sizes": (spec(shape=[-8, -16]), "/qdata/shape: wrong shape"),
    "sizes that are floats": (spec(shape=[8.0, 16]), "/qdata/shape: wrong shape"),
    "rank 100000": (spec(shape=[1] * 100_000), "Limits.rank"),
    "dtype that names code": (spec(dtype="os.system"), "/qdata/dtype: unknown dtype"),
    "another member of a tensor": (spec(x=1), "/qdata: wrong type"),
    "no codes": (layout(qdata=None), "/qdata: wrong type"),
    "block of 2^47": (layout(block_size=[2**47, 2**47]), "does not tile the tensor"),
    "block of 0": (layout(block_size=[0, 16]), "does not tile the tensor"),
    "block of another rank": (layout(block_size=[1] * 100), "another rank"),
}
_DIGESTS: dict[str, dict[str, Any]] = {
    "algorithm that is a list": {"algorithm": []},
    "digests that are a number": {"tensors": 5},
    "half a digest": {"tensors": "0" * 24},
    "digits that are none": {"tensors": "z" * 32},
    "digits of another script": {"tensors": "\u0663" * 32},
    "digits in upper case": {"tensors": "A" * 32},
    "header that is null": {"header": None},
}


def _all() -> Iterator[Item]:
    for what, (text, words) in _TEXTS.items():
        yield Item(54, f"record: {what}", is_said(text), words=(WHERE, words))
    for what, (members, words) in _MEMBERS.items():
        yield Item(55, f"record: {what}", record(**members), words=(WHERE, words))
    for what, (members, words) in _ELSEWHERE.items():
        yield Item(55, f"record: {what}", record(**members), words=(words,))
    for what, (make, words) in _LAYOUTS.items():
        yield Item(56, f"record: {what}", make, words=(f"{WHERE}/layouts/0", words))
    for what, members in _DIGESTS.items():
        found = (f"{WHERE}/digests: ", "16 hexadecimal digits")
        yield Item(57, f"record: {what}", digests(**members), words=found)
    newer = {
        "reader 99": record(min_reader=99, container=99),
        "reader 10^39": record(min_reader=10**39),
        "layout 99": layout(version=99),
    }
    for what, make in newer.items():
        yield Item(58, f"record: {what}", make, code=4, words=(WHERE, "newer than this qconfig"))


RECORDS = [*_all()]
