"""Changes of a seed that are the same on every run: of its bytes, and of the JSON in it."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

VALUES: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    3.5,
    2**31,
    2**63,
    2**64 - 1,
    10**39,
    -(10**39),
    1e308,
    "",
    "a",
    "0",
    "null",
    "\0",
    "\ud800",
    "\u202e",
    "__metadata__",
    "../x.safetensors",
    "torch.int8",
    "os.system",
    "NaN",
    "re:(a+)+$",
    "re:(",
    [],
    {},
    [[]],
    {"": {}},
    [0, 0],
    [-1],
    {"_type": "torch.dtype", "_data": "int8"},
    {"_type": "PerGroup", "_data": {"group_size": 0}},
    {"type": "Int8WeightOnlyConfig", "version": 3},
    {"dtype": "int8", "shape": [0, 2**40]},
)
"""What is put in the place of a value of a document."""
TOKENS: Sequence[bytes] = (
    b"",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"[" * 70,
    b"}",
    b"NaN",
    b"-",
    b"1e999",
    b"9" * 50,
    b"null",
    b"&a ",
    b"*a",
    b"!!python/name:os.system ",
    b"<<: ",
    b"? ",
    b"|\n",
    b"\n- ",
    b"\t",
    b"0x1F",
    b"2026-01-01",
    b'"""',
    b"[[a]]\n",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"(",
    b"t",
    b"R",
    b"}",
    b"s",
    b"u",
    b"b",
    b"Q",
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x81",
    b"N",
    b"K\x00",
    b"M\xff\xff",
    b"\x88",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"X\x01\x00\x00\x00a",
    b"h\x00",
    b"q\x00",
    b"ctorch\nint8\n",
    b"ccollections\nOrderedDict\n",
    b"cos\nsystem\n",
    b".",
)
"""What is put between bytes: of JSON, YAML, TOML and pickles."""
Random = random.Random
_MOST = 1 << 16


def mutations(name: str, seed: bytes, count: int) -> Iterator[bytes]:
    """Yield as many changes of a seed; the same ones for a name on every run."""
    for number in range(count):
        yield mutated(seed, Random(f"{name} {number}"))


def mutated(data: bytes, rng: Random) -> bytes:
    """Return bytes with one to four changes; of a JSON document, half of the time as a document."""
    if rng.random() < 0.5:
        changed = _changed_document(data, rng)
        if changed is not None:
            return changed
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_CHANGES)(data, rng)
    return data[:_MOST]


def _flip(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _replace(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(1) + data[at + 1 :]


def _insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _overwrite(data: bytes, rng: Random) -> bytes:
    token = rng.choice(TOKENS)
    at = rng.randrange(len(data) + 1)
    return data[:at] + token + data[at + max(len(token), 1) :]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randint(1, 16) :]


def _repeat(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    part = data[at : at + rng.randint(1, 32)]
    place = rng.randrange(len(data) + 1)
    return data[:place] + part + data[place:]


_CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (
    _flip,
    _replace,
    _insert,
    _overwrite,
    _cut,
    _remove,
    _repeat,
)


def _changed_document(data: bytes, rng: Random) -> bytes | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    for _ in range(rng.randint(1, 3)):
        places = [*_places(document)]
        if not places:
            return None
        _change(*rng.choice(places), places, rng)
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys, from the outside in."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _change(holder: Any, key: Any, places: Sequence[tuple[Any, Any]], rng: Random) -> None:
    """Replace a value, by another one of the document too, or take it away, or add one."""
    kind = rng.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        other, place = rng.choice(places)
        holder[key] = _copy(other[place]) if _has(other, place) else None
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(("", "a", "type", "_type", "version", "_data", "\0", key + "x"))] = (
            holder.pop(key)
        )
    elif kind == 3 and isinstance(holder, list):
        holder.insert(key, _copy(rng.choice(VALUES)))
    else:
        holder[key] = _copy(rng.choice(VALUES))


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))
