"""SHA-256 of whole shards: what `sha256sum` writes, `verify` checks, and the other way round."""

import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from qconfig import (
    Int8WeightOnlyConfig,
    convert_checkpoint,
    quantize_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.events import EventKind
from qconfig.codec.sha256_sums import SUMS_FILE, read_sums, sha256_of, sums_text
from qconfig.errors import CheckpointError, ContainerError, QconfigError, UsageError
from qconfig.limits import use_limits
from tests.checkpoints.builders import checkpoint_of, float_checkpoint, v1_layout
from tests.cli.calls import call

ZERO = "0" * 64
needs_tool = pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")


@pytest.fixture
def quantized(tmp_path):
    """A quantized checkpoint of two shards."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    quantize_checkpoint(source, tmp_path / "int8", Int8WeightOnlyConfig())
    return tmp_path / "int8"


def listed(directory, *, star=False):
    """Write the list of all shards, as sha256sum does."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()} {'*' if star else ' '}{path.name}\n"
        for path in sorted(directory.glob("*.safetensors"))
    ]
    (directory / SUMS_FILE).write_text("".join(lines))
    return lines


def flip(path):
    """Flip the last bit of a file."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("star", [False, True], ids=["text", "binary"])
def test_sums_of_sound_shards_match(quantized, jobs, star):
    """Both forms of lines, one file after the other and several at a time."""
    listed(quantized, star=star)
    with ThreadPoolExecutor(jobs) as pool:
        found = verify_checkpoint(quantized, executor=pool if jobs > 1 else None)
    assert (found.ok, found.sums, found.notes) == (True, 2, ())


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_flipped_bit_names_the_shard(quantized, jobs):
    """Beside the tensor that its digest finds."""
    listed(quantized)
    shard = sorted(quantized.glob("*.safetensors"))[1]
    flip(shard)
    with ThreadPoolExecutor(jobs) as pool:
        found = verify_checkpoint(quantized, executor=pool if jobs > 1 else None)
    problem = next(p for p in found.problems if SUMS_FILE in p.message)
    assert problem.file == str(shard)
    assert sha256_of(shard) in (problem.found or "")
    assert len(found.problems) == 2


def test_other_processes_compare_sums(quantized):
    """They find the list themselves, and what is wrong."""
    listed(quantized)
    shard = sorted(quantized.glob("*.safetensors"))[1]
    flip(shard)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = verify_checkpoint(quantized, executor=pool)
    assert [p.file for p in found.problems if SUMS_FILE in p.message] == [str(shard)]


def test_a_checkpoint_without_digests_is_checked_too(tmp_path):
    """Floats of another tool have no digests; a list of sums finds what is wrong with them."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    listed(source)
    assert verify_checkpoint(source).ok
    flip(next(source.glob("*.safetensors")))
    (problem,) = verify_checkpoint(source).problems
    assert SUMS_FILE in problem.message


def test_a_shard_without_a_sum_is_a_problem(quantized):
    """A list of other files proves nothing."""
    lines = listed(quantized)
    (quantized / SUMS_FILE).write_text(lines[0])
    (problem,) = verify_checkpoint(quantized).problems
    assert "no sum of a shard" in problem.message
    assert "model-00002-of-00002.safetensors" in (problem.expected or "")


def test_other_files_of_a_list_are_never_opened(quantized):
    """A name that leaves the directory is a name, and no path."""
    lines = listed(quantized)
    (quantized / SUMS_FILE).write_text(
        "".join([*lines, f"{ZERO}  ../secret\n", f"{ZERO}  /etc/passwd\n", f"{ZERO}  gone.txt\n"])
    )
    assert verify_checkpoint(quantized).ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing\n", "line 1 is of another form"),
        (f"# a comment\n\n{ZERO[1:]}  a\n", "line 3 is of another form"),
        (f"SHA256 (a) = {ZERO}\n", "line 1 is of another form"),
        (f"{ZERO}  a\n{ZERO[1:]}1  a\n", "line 2 contradicts an earlier one"),
        (f"{ZERO}  \x00\n", ""),
    ],
)
def test_a_list_of_another_form_is_a_problem(quantized, text, message):
    """It is said, with its line; the rest of the checkpoint is checked all the same."""
    (quantized / SUMS_FILE).write_text(text)
    found = verify_checkpoint(quantized)
    assert message in found.problems[0].message
    assert found.problems[0].file == str(quantized / SUMS_FILE)
    assert found.digests


def test_lists_are_bounded(quantized):
    """A list that is too long is not read."""
    listed(quantized)
    with use_limits(document_bytes=100), pytest.raises(ContainerError, match="too large"):
        read_sums(quantized)


def test_a_list_that_is_no_file_is_refused(quantized, tmp_path):
    """A FIFO is not waited for, and a link out of the directory is not followed unless asked."""
    os.mkfifo(quantized / SUMS_FILE)
    with pytest.raises(ContainerError, match="not a regular file"):
        read_sums(quantized)
    (quantized / SUMS_FILE).unlink()
    (tmp_path / "list").write_text(f"{ZERO}  a\n")
    (quantized / SUMS_FILE).symlink_to(tmp_path / "list")
    with pytest.raises(ContainerError, match="leaves its directory"):
        read_sums(quantized)
    assert read_sums(quantized, follow_symlinks=True) == {"a": ZERO}


def test_names_may_begin_with_the_directory_itself(tmp_path):
    """As `sha256sum ./*` writes them; digits of both cases are the same."""
    (tmp_path / SUMS_FILE).write_text(f"{'A' * 64}  ./a\r\n{'a' * 64} *a\n{ZERO}  b")
    assert read_sums(tmp_path) == {"a": "a" * 64, "b": ZERO}


def test_a_name_with_a_directory_is_not_written():
    """What is written is read again as what it was."""
    with pytest.raises(QconfigError, match="ends a directory"):
        sums_text({"a/b": ZERO})
    assert sums_text({"b": ZERO, "a": ZERO}) == f"{ZERO}  a\n{ZERO}  b\n".encode()


@needs_tool
def test_what_sha256sum_writes_is_read(quantized):
    """The list of the tool itself."""
    names = sorted(path.name for path in quantized.glob("*.safetensors"))
    done = subprocess.run(
        ["sha256sum", *names], cwd=quantized, check=True, capture_output=True, text=True
    )
    (quantized / SUMS_FILE).write_text(done.stdout)
    assert verify_checkpoint(quantized).sums == 2
    assert sums_text(read_sums(quantized)).decode() == done.stdout


def test_a_stale_list_is_not_carried(tmp_path):
    """Sums of shards that there were are wrong of those that are made of them."""
    source = checkpoint_of(tmp_path / "old", {"a.weight": v1_layout()})
    listed(source)
    (source / "LICENSE").write_text("free")
    upgrade_checkpoint(source, tmp_path / "new")
    assert not (tmp_path / "new" / SUMS_FILE).exists()
    assert (tmp_path / "new" / "LICENSE").exists()
    assert (source / SUMS_FILE).exists()


def test_a_list_of_a_name_in_small_letters_is_another_file(tmp_path):
    """It is carried along, unless ours would take its place on some system."""
    source = checkpoint_of(tmp_path / "old", {"a.weight": v1_layout()})
    (source / SUMS_FILE.lower()).write_text("mine")
    upgrade_checkpoint(source, tmp_path / "new")
    assert (tmp_path / "new" / SUMS_FILE.lower()).read_text() == "mine"
    with pytest.raises(CheckpointError, match="has the name of one that is written"):
        upgrade_checkpoint(source, tmp_path / "sums", sha256=True)


def test_bytes_of_whole_files_count(quantized):
    """Events count them, so that a bar does not stand at its end."""
    listed(quantized)
    events = []
    verify_checkpoint(quantized, listener=events.append)
    sizes = sum(path.stat().st_size for path in quantized.glob("*.safetensors"))
    read = [e.bytes for e in events if e.kind is EventKind.TENSOR and e.tensor == SUMS_FILE]
    assert sum(read) == sizes
    assert events[-1].done == events[-1].total > sizes


def test_the_command_says_how_many_match(quantized):
    """In a line, and in JSON."""
    listed(quantized)
    assert "2 SHA-256 sums match" in call("verify", quantized).stdout
    assert '"sums": 2' in call("verify", quantized, "--json").stdout


def write(job, tmp_path, target, **options):
    """Write a checkpoint of several shards by one of the functions that do."""
    if job == "quantize":
        source = float_checkpoint(tmp_path / f"{target.name}-float", shards=3)
        quantize_checkpoint(source, target, Int8WeightOnlyConfig(), **options)
        return
    layouts = {"a.weight": v1_layout(8), "b.weight": v1_layout(16)}
    source = checkpoint_of(tmp_path / f"{target.name}-old", layouts)
    if job == "upgrade":
        upgrade_checkpoint(source, target, max_shard_bytes=1, **options)
    else:
        convert_checkpoint(source, target, max_shard_bytes=1, **options)


@needs_tool
@pytest.mark.parametrize("job", ["quantize", "upgrade", "convert"])
def test_sha256sum_checks_what_is_written(tmp_path, job):
    """The tool itself finds each shard sound, and a flipped bit."""
    write(job, tmp_path, tmp_path / "new", sha256=True)
    command = ["sha256sum", "--check", "--strict", SUMS_FILE]

    def run():
        return subprocess.run(
            command, cwd=tmp_path / "new", check=False, capture_output=True, text=True
        )

    done = run()
    count = len(list((tmp_path / "new").glob("*.safetensors")))
    assert (done.returncode, done.stdout.count(": OK")) == (0, count)
    assert verify_checkpoint(tmp_path / "new").sums == count
    flip(next((tmp_path / "new").glob("*.safetensors")))
    assert run().returncode == 1


@pytest.mark.parametrize("pool_type", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_threads_and_processes_write_the_same_list(tmp_path, pool_type):
    """Each shard's sum is made where the shard is; processes are new ones."""
    write("quantize", tmp_path, tmp_path / "serial", sha256=True)
    context = {} if pool_type is ThreadPoolExecutor else {"mp_context": get_context("spawn")}
    with pool_type(2, **context) as pool:
        write("quantize", tmp_path, tmp_path / "pool", sha256=True, executor=pool)
    assert (tmp_path / "pool" / SUMS_FILE).read_bytes() == (
        tmp_path / "serial" / SUMS_FILE
    ).read_bytes()


def test_shards_that_an_interrupted_run_has_finished_are_in_the_list(tmp_path):
    """A resumed run reads what it keeps."""
    source = float_checkpoint(tmp_path / "float", shards=3)
    finished = []

    def interrupt(event):
        finished.append(event.kind is EventKind.SHARD)
        if sum(finished) == 2:
            raise KeyboardInterrupt

    config = Int8WeightOnlyConfig()
    with pytest.raises(KeyboardInterrupt):
        quantize_checkpoint(source, tmp_path / "new", config, sha256=True, listener=interrupt)
    quantize_checkpoint(source, tmp_path / "new", config, sha256=True)
    found = verify_checkpoint(tmp_path / "new")
    assert (found.ok, found.sums) == (True, 3)


def test_another_choice_is_another_run(tmp_path):
    """Without the list, an interrupted run that makes one is not gone on with."""
    source = float_checkpoint(tmp_path / "float", shards=2)

    def interrupt(event):
        if event.kind is EventKind.SHARD:
            raise KeyboardInterrupt

    config = Int8WeightOnlyConfig()
    with pytest.raises(KeyboardInterrupt):
        quantize_checkpoint(source, tmp_path / "new", config, sha256=True, listener=interrupt)
    with pytest.raises(UsageError, match="interrupted run"):
        quantize_checkpoint(source, tmp_path / "new", config)


def test_without_being_asked_no_list_is_written(tmp_path):
    """Reading every byte again is nobody's wish by default."""
    write("quantize", tmp_path, tmp_path / "new")
    assert not (tmp_path / "new" / SUMS_FILE).exists()


def test_the_commands_write_a_list(tmp_path):
    """All three, with `--sha256`."""
    source = float_checkpoint(tmp_path / "float", shards=2)
    (tmp_path / "c.json").write_text('{"type": "Int8WeightOnlyConfig", "version": 2}')
    calls = {
        "q": ("quantize", source, "--config", tmp_path / "c.json"),
        "u": ("upgrade", tmp_path / "q", "--max-shard-size", "1GB"),
        "t": ("convert", tmp_path / "u", "--to", "torchao"),
    }
    for name, (verb, start, *options) in calls.items():
        done = call(verb, start, tmp_path / name, *options, "--sha256")
        assert done.exit_code == 0, done.stderr
        assert verify_checkpoint(tmp_path / name).sums > 0
