"""What may be the target of a run."""

from pathlib import Path

import pytest

from qconfig.codec.new_directory import new_directory
from qconfig.codec.new_files import write_file
from qconfig.codec.targets import absolute
from qconfig.errors import StorageError, UsageError


@pytest.mark.parametrize(
    "name",
    [".a.qconfig-tmp", ".a.qconfig-tmp/b", ".a.qconfig-tmp/content", ".a.qconfig-tmp-0a1b2c3d"],
)
def test_where_targets_are_made_is_no_target(tmp_path: Path, name: str) -> None:
    """Other runs and the doctor remove what lies there."""
    with (
        pytest.raises(UsageError, match="in which targets are made"),
        new_directory(tmp_path / name),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_leads_up_is_what_it_leads_to(tmp_path: Path) -> None:
    """A target that exists is seen before the work, and no folder is made on the way."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("x")
    with (
        pytest.raises(UsageError, match="the target exists"),
        new_directory(tmp_path / "missing" / ".." / "there"),
    ):
        pass
    with new_directory(tmp_path / "missing" / ".." / "new") as work:
        write_file(work / "a", b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "there"]


def test_a_path_through_a_link_leads_up_from_where_the_link_leads(tmp_path: Path) -> None:
    """As the file system has it."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    assert absolute(tmp_path / "link" / ".." / "c") == tmp_path / "a" / "c"


def test_a_name_has_room_for_what_it_is_made_in(tmp_path: Path) -> None:
    """File systems take 255 bytes, and the directory beside the target has some more."""
    with new_directory(tmp_path / ("é" * 121)) as work:
        write_file(work / "a", b"x")
    with (
        pytest.raises(StorageError, match="name is too long") as caught,
        new_directory(tmp_path / ("é" * 121 + "x")),
    ):
        pass
    assert caught.value.expected == "at most 242 bytes"
