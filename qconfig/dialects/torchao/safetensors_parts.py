"""Which stored tensors are the parts of one that torchao flattened: exact keys, no prefixes."""

from collections.abc import Collection

from qconfig.dialects.torchao.safetensors_names import PARTS, old_key, part_key
from qconfig.dialects.torchao.safetensors_values import Description
from qconfig.errors import CheckpointError, QconfigError, nearest


def part_keys(
    name: str,
    described: Description,
    tensors: Collection[str],
    listed: Collection[str],
    *,
    shards: Collection[str],
) -> tuple[dict[str, str], list[QconfigError]]:
    """Return the key of each part of a tensor, and what is wrong with them.

    Args:
        name: name of the tensor.
        described: what the metadata says about it; its type is one of `PARTS`.
        tensors: keys of all stored tensors.
        listed: names of all tensors that the metadata lists.
        shards: names of all files, for messages.
    """
    known = PARTS[described.type]
    named, problems = described.parts, list[QconfigError]()
    allowed = (*known.required, *known.optional)
    for part in named or ():
        if part not in allowed:
            problems.append(
                CheckpointError(
                    f"{described.type} has no such part",
                    fqn=name,
                    found=part,
                    expected=", ".join(allowed),
                    hint=nearest(part, allowed),
                )
            )
    keys: dict[str, str] = {}
    for part in allowed:
        must = part in (known.required if named is None else named)
        key = _key(name, part, tensors, () if must else listed)
        if key is not None and (named is None or must):
            keys[part] = key
        elif must:
            problems.append(_missing(name, part, shards))
        elif part in known.required:
            problems.append(
                CheckpointError(
                    "the metadata lists the parts of the tensor, and not all of them",
                    fqn=name,
                    found=", ".join(named or ()),
                    expected=", ".join(known.required) + " at least",
                )
            )
    return keys, problems


def _key(name: str, part: str, tensors: Collection[str], others: Collection[str]) -> str | None:
    """Return the key under which a part is stored, in the form of 0.15 or of 0.14, or None."""
    keys = (part_key(name, part), old_key(name, part))
    return next((key for key in keys if key in tensors and key not in others), None)


def _missing(name: str, part: str, shards: Collection[str]) -> CheckpointError:
    return CheckpointError(
        "a part of the tensor is missing",
        fqn=name,
        found=f"no {part_key(name, part)}",
        expected=f"{part} in one of " + ", ".join(shards),
        hint="open the directory, whose other files may hold it"
        if len(shards) == 1
        else "a file was cut or left out; fetch the checkpoint again",
    )
