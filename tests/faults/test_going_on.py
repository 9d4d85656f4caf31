"""What a run keeps of one that was killed, and when it refuses to go on."""

import pytest

from qconfig.errors import UsageError
from tests.cli.calls import call
from tests.faults.expectations import leftover_of
from tests.faults.operations import CONFIGS, NAMES, OPERATIONS, digest_of

GOING_ON = [name for name, operation in OPERATIONS.items() if operation.goes_on]


@pytest.fixture
def place(tmp_path):
    """Where the server lets runs happen: source, target, and where the target is made."""
    target = tmp_path / "place" / "target"
    return tmp_path / "source", target, leftover_of(target)


@pytest.mark.parametrize("operation", GOING_ON)
def test_finished_shards_are_kept(ask, tmp_path, place, operation):
    """Shards of the first run are the same files in the end, and no tensor of them is computed."""
    source, target, leftover = place
    final = ask("interrupted", operation=operation, home=tmp_path, shards=2)
    inodes = {name: (leftover / "content" / name).stat().st_ino for name in NAMES[:2]}
    events = []
    OPERATIONS[operation].run(source, target, listener=events.append)
    assert digest_of(target) == final
    assert {name: (target / name).stat().st_ino for name in NAMES[:2]} == inodes
    assert {e.shard for e in events if e.kind == "tensor"} == {NAMES[2]}
    assert [e.shard for e in events if e.kind == "shard"] == list(NAMES)
    assert events[-1].done == events[-1].total == events[0].total


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing", "longer", "link"])
def test_a_shard_that_was_damaged_is_written_again(ask, tmp_path, place, damage):
    """A finished shard is read before it is trusted."""
    source, target, leftover = place
    final = ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    shard = leftover / "content" / NAMES[0]
    content = shard.read_bytes()
    shard.unlink()
    if damage == "flipped":
        shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        shard.write_bytes(content[:-1])
    elif damage == "longer":
        shard.write_bytes(content + b"\0")
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        shard.symlink_to(tmp_path / "elsewhere")
    OPERATIONS["quantize"].run(source, target)
    assert digest_of(target) == final
    assert not leftover.exists()


def test_content_that_is_a_link(ask, tmp_path, place):
    """What was moved elsewhere and linked is not touched, and no target becomes a link."""
    source, target, leftover = place
    final = ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    elsewhere = (leftover / "content").rename(tmp_path / "elsewhere")
    (elsewhere / "mine").write_text("mine", encoding="utf-8")
    (leftover / "content").symlink_to(elsewhere)
    before = digest_of(elsewhere)
    OPERATIONS["quantize"].run(source, target)
    assert digest_of(elsewhere) == before
    assert not target.is_symlink()
    assert digest_of(target) == final


@pytest.mark.parametrize("text", [b"", b"{", b"[1]\n", b"\xff\n", b"{}\n{}\n", b"[" * 10**5])
def test_a_journal_that_was_damaged_is_of_no_use(ask, tmp_path, place, text):
    """Without a journal, the run begins anew."""
    source, target, leftover = place
    final = ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    (leftover / "journal").write_bytes(text)
    OPERATIONS["quantize"].run(source, target)
    assert digest_of(target) == final
    assert not leftover.exists()


def test_a_journal_that_was_cut_at_any_byte(ask, tmp_path, place):
    """A journal of which the end is lost keeps what it still says."""
    source, target, leftover = place
    final = ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    journal = (leftover / "journal").read_bytes()
    ends = [i for i in range(len(journal)) if journal[i : i + 1] == b"\n"]
    for end in {*ends, *(i + 1 for i in ends), *(i + 9 for i in ends[:-1])}:
        ask("interrupted", operation="quantize", home=tmp_path / str(end), shards=2)
        own = tmp_path / str(end)
        (leftover_of(own / "place" / "target") / "journal").write_bytes(
            (leftover_of(own / "place" / "target") / "journal").read_bytes()[:end]
        )
        OPERATIONS["quantize"].run(own / "source", own / "place" / "target")
        assert digest_of(own / "place" / "target") == final
    OPERATIONS["quantize"].run(source, target)


def change_shard(source):
    """Change one byte of a shard of the source, and nothing of its size."""
    path = source / NAMES[2]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def change_carried(source):
    """Change a file that is copied along."""
    (source / "extra" / "notes" / "readme.txt").write_text("another\n", encoding="utf-8")


def change_config_json(source):
    """Change what config.json says besides."""
    (source / "config.json").write_text('{"model_type": "other"}', encoding="utf-8")


def replace_shard(source):
    """Put a copy in the place of a shard, as a download does."""
    (source / "new").write_bytes((source / NAMES[0]).read_bytes())
    (source / "new").rename(source / NAMES[0])


def add_file(source):
    """Add a file that would be copied along."""
    (source / "LICENSE").write_text("free\n", encoding="utf-8")


CHANGES = [change_shard, change_carried, change_config_json, replace_shard, add_file]


@pytest.mark.parametrize("change", CHANGES)
def test_another_source_is_refused(ask, tmp_path, place, change):
    """A source that is not what it was is refused, and nothing of what is left is touched."""
    source, target, leftover = place
    ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    change(source)
    before = digest_of(leftover / "content")
    with pytest.raises(UsageError, match="interrupted run") as caught:
        OPERATIONS["quantize"].run(source, target)
    assert caught.value.file == str(target)
    assert "qconfig doctor --remove" in caught.value.hint
    assert digest_of(leftover / "content") == before
    assert not target.exists()
    assert call("doctor", "--remove", target.parent).exit_code == 0
    assert not leftover.exists()
    OPERATIONS["quantize"].run(source, target)
    assert target.is_dir()


def test_another_config_is_refused(ask, tmp_path, place):
    """Another config is refused, and the one of before still goes on."""
    source, target, _ = place
    final = ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    with pytest.raises(UsageError, match="interrupted run") as caught:
        OPERATIONS["quantize"].run(source, target, config=CONFIGS[1])
    assert "config" in str(caught.value)
    OPERATIONS["quantize"].run(source, target)
    assert digest_of(target) == final


def test_another_operation_is_refused(ask, tmp_path, place):
    """What quantizing has begun, saving and upgrading do not go on with."""
    _, target, leftover = place
    ask("interrupted", operation="quantize", home=tmp_path, shards=1)
    other = tmp_path / "other"
    OPERATIONS["upgrade"].make(other)
    before = digest_of(leftover / "content")
    for operation in ("upgrade", "convert"):
        with pytest.raises(UsageError, match="interrupted run"):
            OPERATIONS[operation].run(other, target)
    assert digest_of(leftover / "content") == before


def test_doctor_lists_what_is_left(ask, tmp_path, place):
    """What an interrupted run has left is listed, with what it was; listing removes nothing."""
    _, target, leftover = place
    ask("interrupted", operation="quantize", home=tmp_path, shards=2)
    result = call("doctor", target.parent)
    assert str(leftover) in result.stdout
    assert "2 finished shards of 3" in result.stdout
    assert leftover.exists()


def test_what_is_nobodys_is_not_removed(tmp_path):
    """Something else that has the name is refused and stays."""
    OPERATIONS["quantize"].make(tmp_path / "source")
    target = tmp_path / "target"
    leftover_of(target).write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError):
        OPERATIONS["quantize"].run(tmp_path / "source", target)
    assert leftover_of(target).read_text(encoding="utf-8") == "mine"
    leftover_of(target).unlink()
    leftover_of(target).symlink_to(tmp_path / "source")
    with pytest.raises(UsageError):
        OPERATIONS["quantize"].run(tmp_path / "source", target)
    assert leftover_of(target).is_symlink()
