"""In which order files reach the disk, so that a power cut finds what a kill finds."""

from pathlib import PurePath

import pytest
from attrs import define, field

from tests.faults.calls import SYNCS, Call
from tests.faults.expectations import is_named
from tests.faults.operations import NAMES, OPERATIONS

PLACE, TARGET = PurePath("place"), PurePath("place/target")
CHANGES = {"write", "pwrite", "writev", "pwritev", "sendfile", "copy_file_range", "ftruncate"}


@define
class Disk:
    """What a power cut could take: contents of files and names in folders, by path.

    What is brought to the disk is not in here any more.
    """

    contents: set[PurePath] = field(factory=set)
    names: set[PurePath] = field(factory=set)

    def follow(self, call: Call) -> None:
        """Let a call have its effect."""
        path, source = PurePath(call.path), PurePath(call.source)
        if call.name in SYNCS:
            self.contents.discard(path)
            self.names.discard(path)
        elif call.name in CHANGES:
            self.contents.add(path)
        elif call.name in {"open", "mkdir", "unlink", "rmdir"}:
            self.names.add(path.parent)
            if call.name == "open":
                self.contents.add(path)
        elif call.name in {"rename", "replace"}:
            self.contents = {moved(p, source, path) for p in self.contents}
            self.names = {moved(p, source, path) for p in self.names}
            self.names |= {path.parent, source.parent}


def moved(path: PurePath, source: PurePath, target: PurePath) -> PurePath:
    """Return where something is after a rename."""
    return target / path.relative_to(source) if path.is_relative_to(source) else path


@pytest.fixture(scope="module", params=OPERATIONS)
def calls(request, ask, tmp_path_factory) -> list[Call]:
    """All calls of an operation that change files."""
    made = ask("calls", operation=request.param, home=tmp_path_factory.mktemp("order"))
    return [Call(**call) for call in made]


def renamed(calls: list[Call]) -> int:
    """Return the position of the call that gives the target its name."""
    (position,) = (i for i, call in enumerate(calls) if PurePath(call.path) == TARGET)
    assert calls[position].name == "rename"
    return position


def test_all_is_on_the_disk_before_the_target_has_its_name(calls):
    """Each file and each folder in it is brought to the disk after its last change."""
    disk = Disk()
    for call in calls[: renamed(calls) + 1]:
        disk.follow(call)
    lost = [path for path in disk.contents | disk.names if path.is_relative_to(TARGET)]
    assert not lost


def test_the_name_of_the_target_is_on_the_disk_before_anything_is_removed(calls):
    """After the rename comes the folder of the target."""
    after = calls[renamed(calls) + 1]
    assert after.name in SYNCS
    assert PurePath(after.path) == PLACE


def test_files_get_their_names_in_order(calls):
    """Shards come first, then other files, the index, and config.json last of all."""
    begun = [c for c in calls[: renamed(calls)] if c.name in {"open", "rename", "replace"}]
    named = [PurePath(call.path).name for call in begun if "/content/" in call.path]
    assert named[:3] == list(NAMES)
    assert named[-2:] == ["model.safetensors.index.json", "config.json"]


def test_shards_are_on_the_disk_before_the_index_is_begun(calls):
    """So are their names."""
    disk = Disk()
    for call in calls:
        if is_named(call, "model.safetensors.index.json"):
            break
        disk.follow(call)
    assert not [path for path in disk.contents if path.name in NAMES]
    before = [c for c in calls if is_named(c, "content") and c.name in SYNCS]
    last = max(i for i, c in enumerate(calls[: renamed(calls)]) if PurePath(c.path).name in NAMES)
    assert calls.index(before[0]) > last


def test_a_shard_is_on_the_disk_before_the_journal_says_so(calls):
    """What the journal says of a shard is true after a power cut, too."""
    disk, named, lines = Disk(), 0, 0
    for call in calls[: renamed(calls)]:
        named += PurePath(call.path).name in NAMES and call.name in {"open", "rename", "replace"}
        if call.name == "write" and is_named(call, "journal"):
            assert not [path for path in disk.contents if path.name in NAMES]
            lines += 1
            assert lines == 1 + named or named == len(NAMES)
        disk.follow(call)
    assert lines in {0, 2 + len(NAMES)}  # a head, the shards, and that all is finished
