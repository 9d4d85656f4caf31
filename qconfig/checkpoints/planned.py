"""What a call would write, known before anything is: the same in every process that plans it."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from attrs import field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.parts import surplus, wrong_ties
from qconfig.codec.digests import Digests, digest, header_digest, known_digests
from qconfig.codec.safetensors_header import Header
from qconfig.codec.safetensors_writer import Metadata
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.tensor_values import ByteRange, LazyTensor, nbytes
from qconfig.errors import CheckpointError, raise_problems


@frozen(slots=False, eq=False)
class Planned:
    """The shards of a new checkpoint.

    Args:
        given: contents by file name.
        origin: the checkpoint that it is made from.
        digests: whether each shard's record has digests of its tensors. Those of `origin` are kept
            where its bytes are copied, so that what was damaged before stays known as such.
    """

    given: Mapping[str, ShardContents]
    origin: Checkpoint | None = None
    digests: bool = field(default=True, kw_only=True)

    @cached_property
    def shards(self) -> Mapping[str, ShardContents]:
        """The contents, without shards whose tensors have all gone to others.

        No index would name those.
        """
        filled = {name: x for name, x in self.given.items() if x.plain or x.layouts}
        return filled or dict(list(self.given.items())[:1])

    @cached_property
    def metadata(self) -> dict[str, Metadata]:
        """The header metadata of each shard, or what makes it of digests."""
        if self.digests:
            return {name: x.digested_metadata() for name, x in self.shards.items()}
        return {name: x.header_metadata() for name, x in self.shards.items()}

    @cached_property
    def known(self) -> Mapping[ByteRange, str]:
        """Digests of byte ranges of the origin."""
        if not self.digests or self.origin is None:
            return {}
        shards, digests = self.origin.shards, self.origin.digests
        files = ((shards[name], stated) for name, stated in digests.items())
        return known_digests((file, stated) for file, stated in files if isinstance(file, Header))

    @cached_property
    def identity(self) -> str:
        """A digest of all names, dtypes, shapes and metadata."""
        headers = []
        for name, metadata in self.metadata.items():
            tensors = self.shards[name].tensors()
            said = metadata(Digests.blank(len(tensors))) if callable(metadata) else metadata
            headers.append([name, header_digest(said, tensors)])
        return digest(dumps_compact(headers).encode())

    def stored(self, directory: Path) -> dict[str, dict[str, LazyTensor]]:
        """Return the tensors of each file by the names under which they are stored, checked.

        Args:
            directory: what errors name.

        Raises:
            CheckpointError: names that contradict each other.
        """
        shards = self.shards
        try:
            stored = {name: contents.tensors() for name, contents in shards.items()}
        except CheckpointError as error:
            raise error.at(file=directory) from None
        layouts = {f: x for contents in shards.values() for f, x in contents.layouts.items()}
        plain = [name for contents in shards.values() for name in contents.plain]
        ties = {a: n for contents in shards.values() for a, n in contents.ties.items()}
        names = {name for tensors in stored.values() for name in tensors}
        problems = [*surplus(plain, layouts), *wrong_ties(ties, set(plain), layouts, names)]
        raise_problems(problems, file=directory)
        return stored

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The bytes of the tensors of each shard."""
        return {
            name: sum(nbytes(tensor) for tensor in contents.tensors().values())
            for name, contents in self.shards.items()
        }
