"""Tensors of torchao's safetensors files: parts and metadata, put together over all shards.

A part of a tensor may lie in another shard than the next one, and the metadata in a third;
transformers writes the whole of it into every shard. Keys are compared as they are: torchao takes
whatever begins like a part, and loses `m.w` beside `m.w_1`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from qconfig.codec import strict_json
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.safetensors_names import (
    PARTS,
    PLAIN_TYPES,
    TENSOR_NAMES,
    old_key,
    owner_of,
)
from qconfig.dialects.torchao.safetensors_parts import part_keys
from qconfig.dialects.torchao.safetensors_values import TYPE, Description, read_description
from qconfig.dialects.torchao.stored import Stored
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    ContainerError,
    DocumentSyntaxError,
    QconfigError,
    UnknownNameError,
    json_pointer,
    nearest,
    raise_problems,
)

_METADATA = "/__metadata__"


@frozen
class Flattened:
    """The tensors of a checkpoint that torchao wrote.

    Args:
        plain: tensors without parts, by name.
        stored: quantized tensors by name, nothing in them interpreted.
        shard_of: file name of each plain tensor and of the first part of each quantized one.
        metadata: header metadata of each shard, without torchao's.
        notes: what is odd but harmless.
    """

    plain: dict[str, LazyTensor] = field(factory=dict)
    stored: dict[str, Stored] = field(factory=dict)
    shard_of: dict[str, str] = field(factory=dict)
    metadata: dict[str, dict[str, str]] = field(factory=dict)
    notes: tuple[str, ...] = ()


def is_torchao(metadata: Any) -> bool:
    """Return whether header metadata is torchao's: a list of names and the type of one of them.

    A description of a quantized tensor is enough.

    Foreign metadata of any form is not torchao's, and never an error.

    Args:
        metadata: the strings under `__metadata__`.
    """
    if not isinstance(metadata, Mapping):
        return False
    names = _json(metadata.get(TENSOR_NAMES))
    if not isinstance(names, list):
        # Who lost the list still has the descriptions.
        return any(_kind(text) in PARTS for text in metadata.values())
    return any(_kind(metadata.get(name)) is not None for name in names if isinstance(name, str))


def read_flattened(headers: Mapping[str, Header], tensors: Mapping[str, LazyTensor]) -> Flattened:
    """Return the tensors of files that torchao wrote, from 0.14 on; no data is read.

    Args:
        headers: headers of all shards by file name.
        tensors: all stored tensors of these shards by key.

    Raises:
        CheckpointError, ContainerError, DocumentError: parts or metadata that are missing, that
            contradict each other or that nobody lists; all problems at once, with file, name and
            what was expected.
    """
    reader = _Reader(headers, tensors)
    for name in reader.names():
        reader.read(name)
    reader.check_rest()
    raise_problems(reader.problems[:MOST_PROBLEMS])
    return Flattened(
        reader.plain, reader.stored, reader.shard_of, reader.metadata(), tuple(reader.notes)
    )


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return strict_json.loads(text)
    except DocumentSyntaxError:
        return None


class _Reader:
    """Reads the tensors of some shards and collects what is wrong with them."""

    def __init__(self, headers: Mapping[str, Header], tensors: Mapping[str, LazyTensor]) -> None:
        self.problems: list[QconfigError] = []
        self.notes: list[str] = []
        self.plain: dict[str, LazyTensor] = {}
        self.stored: dict[str, Stored] = {}
        self.shard_of: dict[str, str] = {}
        self._headers = headers
        self._tensors = tensors
        self._located = {key: shard for shard, h in headers.items() for key in h.tensors}
        self._claims: dict[str, str] = {}
        self._listed: dict[str, str] = {}
        self._descriptions: dict[str, Description] = {}

    def names(self) -> list[str]:
        """Return the names that the shards list, in their order."""
        for shard, header in self._headers.items():
            if TENSOR_NAMES not in header.metadata:
                continue
            names = _json(header.metadata[TENSOR_NAMES])
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                self.problems.append(
                    ContainerError(
                        f"{TENSOR_NAMES} is not a list of names",
                        file=header.path,
                        pointer=_METADATA + json_pointer(TENSOR_NAMES),
                        found=header.metadata[TENSOR_NAMES],
                        expected="a JSON list of strings",
                    )
                )
                continue
            for name in names:
                self._listed.setdefault(name, shard)
        return list(self._listed)

    def read(self, name: str) -> None:
        """Read the tensor of a name."""
        try:
            shard, described = self._description(name)
        except QconfigError as error:
            self.problems += error.problems
            return
        if described.type in PLAIN_TYPES:
            self._read_plain(name)
        elif described.type in PARTS:
            self._read_parts(name, shard, described)
        else:
            self.problems.append(
                UnknownNameError(
                    "torchao stores no tensors of this class in safetensors files",
                    file=self._headers[shard].path,
                    fqn=name,
                    pointer=_METADATA + json_pointer(name),
                    found=described.type,
                    expected="one of " + ", ".join(["Tensor", *PARTS]),
                    hint=nearest(described.type, PARTS),
                )
            )

    def check_rest(self) -> None:
        """Find descriptions without a listing and tensors that belong to nothing."""
        self.problems += self._unlisted_descriptions()
        broken = {problem.fqn for problem in self.problems}
        for key, shard in self._located.items():
            if key in self._claims:
                continue
            owner = owner_of(key)
            if owner in broken:
                continue
            header = self._headers[shard]
            has_names = TENSOR_NAMES in header.metadata
            # torchao cannot list a name without a dot, and shards without its metadata are not its.
            if key not in self._listed and owner is None and ("." not in key or not has_names):
                self.notes.append(f"{key} of {shard} is not in torchao's metadata")
                self._keep(key, self._tensors[key], key)
                continue
            self.problems.append(
                CheckpointError(
                    "torchao's metadata does not list the tensor",
                    file=header.path,
                    fqn=key,
                    expected="a plain tensor by its name, or a part that its tensor lists"
                    if owner is None
                    else f"a description of {owner} that lists it",
                    hint="the metadata was changed or lost; write the checkpoint again",
                )
            )

    def metadata(self) -> dict[str, dict[str, str]]:
        """Return the metadata of each shard without what is torchao's."""
        return {
            shard: {
                key: text
                for key, text in header.metadata.items()
                if key != TENSOR_NAMES and key not in self._listed
            }
            for shard, header in self._headers.items()
        }

    def _description(self, name: str) -> tuple[str, Description]:
        texts = {s: h.metadata[name] for s, h in self._headers.items() if name in h.metadata}
        if not texts:
            raise CheckpointError(
                "torchao's metadata lists the tensor and does not describe it",
                file=self._headers[self._listed[name]].path,
                fqn=name,
                pointer=_METADATA + json_pointer(name),
                expected=f'a JSON text with "{TYPE}"',
            )
        first, *others = texts.items()
        described = self._parsed(name, *first)
        for shard, text in others:
            if text != first[1] and self._parsed(name, shard, text) != described:
                raise CheckpointError(
                    "two shards describe the tensor, and not alike",
                    file=self._headers[shard].path,
                    fqn=name,
                    found=text,
                    expected=f"what {first[0]} says",
                )
        return first[0], described

    def _parsed(self, name: str, shard: str, text: str) -> Description:
        # Layers of one kind have one text, so that most have been read before.
        known = self._descriptions.get(text)
        if known is not None:
            return known
        try:
            described = read_description(text)
        except QconfigError as error:
            file, where = self._headers[shard].path, _METADATA + json_pointer(name)
            raise error.at(file=file, fqn=name, pointer_prefix=where) from None
        self._descriptions[text] = described
        return described

    def _read_plain(self, name: str) -> None:
        key = next((k for k in (name, old_key(name, "_data")) if k in self._tensors), None)
        if key is not None:
            self._keep(name, self._tensors[key], key)
            return
        # transformers lists tied weights and stores one of them.
        self.notes.append(f"{name} is listed by torchao's metadata and not stored; is it tied?")

    def _keep(self, name: str, tensor: LazyTensor, key: str) -> None:
        if self._claimed(name, key):
            self.plain[name] = tensor
            self.shard_of[name] = self._located[key]

    def _read_parts(self, name: str, shard: str, described: Description) -> None:
        keys, problems = part_keys(
            name, described, self._tensors, self._listed, shards=self._headers
        )
        self.problems += [p.at(file=self._headers[shard].path) for p in problems]
        free = [self._claimed(name, key) for key in keys.values()]
        if not problems and all(free):
            parts = {part: self._tensors[key] for part, key in keys.items()}
            self.stored[name] = Stored(
                described.type, None, None, None, {**described.data, **parts}
            )
            self.shard_of[name] = self._located[next(iter(keys.values()))]

    def _claimed(self, name: str, key: str) -> bool:
        """Note that a key belongs to a tensor; False if it belongs to another already."""
        other = self._claims.setdefault(key, name)
        if other == name:
            return True
        self.problems.append(
            CheckpointError(
                "a tensor belongs to two",
                file=self._headers[self._located[key]].path,
                fqn=key,
                found=f"{other} and {name}",
                expected="one tensor to which it belongs",
            )
        )
        return False

    def _unlisted_descriptions(self) -> Iterator[CheckpointError]:
        seen = set(self._listed)
        for header in self._headers.values():
            for name, text in header.metadata.items():
                if name in seen or _kind(text) not in {*PARTS, *PLAIN_TYPES}:
                    continue
                seen.add(name)
                yield CheckpointError(
                    f"{TENSOR_NAMES} does not list a tensor that is described",
                    file=header.path,
                    fqn=name,
                    pointer=_METADATA + json_pointer(TENSOR_NAMES),
                    expected="the name of each tensor",
                )


def _kind(text: Any) -> str | None:
    """Return the name of a class that a text describes a tensor of, or None if it does not."""
    content = _json(text) if isinstance(text, str) and TYPE in text else None
    kind = content.get(TYPE) if isinstance(content, dict) else None
    return kind if isinstance(kind, str) else None
