"""The archive of torch.save: what is read, what is refused, and in which words."""

import io
import os
import re
import struct
import tarfile
import zipfile

import pytest
import torch

from qconfig.codec.torch_files import read_torch_file
from qconfig.errors import ContainerError, StorageError
from tests.codec.torch_samples import archive, of_pickle, saved
from tests.codec.zip_samples import Part, zip_bytes

PICKLE = {"data.pkl": b"N.", "version": b"3\n"}
PARTS = (Part(b"a/data.pkl", b"N."), Part(b"a/version", b"3\n"), Part(b"a/data/0", bytes(8)))


def refusal(path, data: bytes | None = None) -> str:
    """Return the text of the error that a file gives."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, {})
    assert caught.value.file == str(path)
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    """A path to write to."""
    return tmp_path / "m.pt"


def test_an_archive_of_parts_is_read(path):
    """The sound form of what the other tests break, with and without zip64."""
    for options in ({}, {"zip64": True}, {"descriptors": True}, {"zip64": True, "wide": True}):
        path.write_bytes(zip_bytes(PARTS, **options))
        assert read_torch_file(path, {}).root is None


def test_archives_of_torch_without_checksums_are_read(path):
    """Writers can leave the checksums out."""
    torch.serialization.set_crc32_options(compute_crc32=False)
    try:
        saved({"x": torch.ones(3)}, path)
    finally:
        torch.serialization.set_crc32_options(compute_crc32=True)
    assert read_torch_file(path, {}).root["x"].value.load().tolist() == [1, 1, 1]


def test_an_archive_of_more_than_4_gib_is_read(path):
    """Sizes and offsets beyond 32 bits; torch itself maps the same file."""
    first, last = 2**32 + 64, 16
    saved({"x": torch.ones(4), "y": torch.ones(4)}, path)
    pickle = zipfile.ZipFile(path).read("m/data.pkl")
    pickle = re.sub(rb"K\x04(tq.Q)", lambda m: b"\x8a\x05%s" + m[1], pickle)
    sizes = [(n // 4).to_bytes(5, "little") for n in (first, last)]
    for size in sizes:
        pickle = pickle.replace(b"%s", size, 1)
    tail = zip_bytes(
        (
            Part(b"m/data.pkl", pickle),
            Part(b"m/version", b"3\n"),
            Part(b"m/data/0", b"", hole=first),
            Part(b"m/data/1", struct.pack("<4f", 1, 2, 3, 4)),
        ),
        zip64=True,
        file=path,
    )
    assert tail == b""
    root = read_torch_file(path, {}).root
    assert root["y"].value.source.offset > 2**32
    assert root["y"].value.load().tolist() == [1, 2, 3, 4]
    assert root["x"].value.load().tolist() == [0, 0, 0, 0]
    theirs = torch.load(path, mmap=True, weights_only=True)
    assert theirs["y"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ({"version": b"3\n"}, "expected: records data.pkl and version"),
        ({"data.pkl": b"N."}, "expected: records data.pkl and version"),
        (PICKLE | {"code/m.py": b""}, "a TorchScript archive, which is not read"),
        (PICKLE | {"constants.pkl": b""}, "a TorchScript archive, which is not read"),
        (PICKLE | {"models/model.json": b""}, "an archive of torch.export, which is not read"),
        (PICKLE | {".data/extern_modules": b""}, "an archive of torch.package"),
        (PICKLE | {"evil.pkl": b""}, "found: 'evil.pkl'"),
        (PICKLE | {"data/a/b": b""}, "what torch.save does not write"),
        (PICKLE | {"data/x.zip/": b""}, "the archive's one folder"),
        (PICKLE | {"data/..": b""}, "the archive's one folder"),
        (PICKLE | {"../x": b""}, "the archive's one folder"),
        (PICKLE | {"data/a\\b": b""}, "the archive's one folder"),
        (PICKLE | {"": b""}, "the archive's one folder"),
        (PICKLE | {"version": b"11\n"}, "was it written by a newer torch?"),
        (PICKLE | {"version": b"three"}, "expected: 1 to 10"),
        (PICKLE | {"version": b"3" * 999}, "the record archive/version is too long"),
        (PICKLE | {"byteorder": b"big"}, "written on a big-endian machine"),
        (PICKLE | {"byteorder": b"middle"}, "an unknown order of bytes"),
    ],
)
def test_another_set_of_records_is_refused(records, words, path):
    """By the name of the format where it is known."""
    assert words in refusal(path, archive(records))


@pytest.mark.parametrize("folder", [b"", b"/a", b"..", b".", b"a\\b", b"b"])
def test_records_lie_in_one_folder(folder, path):
    """No absolute names, no parents, no second folder."""
    parts = (*PARTS, Part(folder + b"/byteorder", b"little"))
    assert "does not lie in the archive's one folder" in refusal(path, zip_bytes(parts))


def test_other_forms_are_refused_by_name(path):
    """Older forms of torch.save, a bare pickle, and files of other kinds."""
    saved({"x": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    text = refusal(path)
    assert "torch.save's form before torch 1.6" in text
    assert "load it where it was made and save its state_dict" in text
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("storages"))
    assert "a tar archive" in refusal(path, buffer.getvalue())
    assert "a bare pickle" in refusal(path, b"\x80\x02N.")
    assert "an empty file" in refusal(path, b"")
    assert "bytes that begin with b'GGUF" in refusal(path, b"GGUF\x03\0\0\0")


def test_the_start_of_an_archive_is_refused(path):
    """A few bytes of one cannot hold its end."""
    assert "is too short" in refusal(path, b"PK\x03\x04")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_model_is_refused_by_name(path):
    """As torch.jit.save writes it."""
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    assert "a TorchScript archive" in refusal(path)


def test_compressed_records_are_refused(path):
    """A kilobyte that would become a gigabyte is never inflated."""
    bomb = archive(PICKLE | {"data/0": bytes(2**24)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**16
    text = refusal(path, bomb)
    assert "has a compressed record" in text
    assert "write it again with torch.save" in text


def test_a_record_without_room_for_its_header_is_refused(path):
    """Its header would end in the directory."""
    whole = zip_bytes(PARTS)
    directory = int.from_bytes(whole[-6:-2], "little")
    cut = whole.rindex(b"PK\3\4") + 10
    data = whole[:cut] + whole[directory:-6] + cut.to_bytes(4, "little") + whole[-2:]
    text = refusal(path, data)
    assert "has a record outside the file" in text
    assert "found: 'a/data/0'" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flags": 1}, "has an encrypted record"),
        ({"flags": 0x40}, "has an encrypted record"),
        ({"flags": 0x20}, "unknown flags"),
        ({"method": 8}, "has a compressed record"),
        ({"packed": 9}, "has a compressed record"),
        ({"size": 2**20, "packed": 2**20}, "contradicts the directory"),
        ({"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF}, "lacks a zip64 field"),
        ({"offset": 2**30}, "bytes that belong to no record"),
        ({"offset": 0}, "records that overlap"),
        ({"offset": 0xFFFFFFFF}, "lacks a zip64 field"),
        ({"disk": 1}, "a directory that is damaged"),
        ({"local_name": b"a/data/1"}, "contradicts the directory"),
        ({"local_method": 8}, "contradicts the directory"),
        ({"local_flags": 8}, "contradicts the directory"),
        ({"local_size": 4}, "contradicts the directory"),
        ({"local_crc": 4}, "contradicts the directory"),
        ({"name": b"a/data/\xff", "local_name": b"a/data/\xff"}, "not UTF-8"),
        ({"name": b"a/version", "local_name": b"a/version"}, "two records of one name"),
        ({"before": b"xyz"}, "bytes that belong to no record"),
        ({"comment": b"hi"}, None),
    ],
)
def test_a_record_that_lies_is_refused(change, words, path):
    """The directory, the header of the record and the bytes must agree."""
    data = zip_bytes((*PARTS[:2], Part(**{"name": b"a/data/0", "data": bytes(8)} | change)))
    if words is None:
        path.write_bytes(data)
        assert read_torch_file(path, {}).root is None
    else:
        assert words in refusal(path, data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"after": b"x"}, "does not end as a zip archive does"),
        ({"after": b"PK\x05\x06" + bytes(18)}, "bytes around its directory"),
        ({"between": b"x"}, "bytes around its directory"),
        ({"first": b"PK\x03\x04"}, "bytes around its directory"),
        ({"end_comment": b"x"}, "does not end as a zip archive does"),
        ({"count": 2}, "has more records than it says"),
        ({"count": 4}, "has fewer records than it says"),
        ({"count": 0xFFFF}, "has fewer records than it says"),
        ({"volume": 1}, "one of several volumes"),
        ({"zip64": True, "count": 2}, "two ends that contradict each other"),
        ({"zip64": True, "locator": 3}, "a zip64 end that is not where it should be"),
    ],
)
def test_an_end_that_lies_is_refused(options, words, path):
    """Nothing before, between and after the parts of an archive."""
    assert words in refusal(path, zip_bytes(PARTS, **options))


def test_a_damaged_pickle_is_noticed(path):
    """By its checksum."""
    data = bytearray(of_pickle(b"]K\x01K\x02\x86a."))
    data[data.index(b"K\x02\x86") + 1] = 3
    text = refusal(path, bytes(data))
    assert "the record archive/data.pkl is damaged" in text
    assert "expected: checksum 0x" in text


def test_what_is_no_regular_file_is_refused(tmp_path):
    """A FIFO is not waited for; a link is followed, unless it leads nowhere."""
    fifo, link, dangling = (tmp_path / n for n in ("fifo", "link", "dangling"))
    os.mkfifo(fifo)
    assert "a FIFO" in refusal(fifo)
    assert "a directory" in refusal(tmp_path)
    link.symlink_to(saved({}, tmp_path / "m.pt"))
    assert read_torch_file(link, {}).root == {}
    dangling.symlink_to("nowhere")
    assert "leads nowhere" in refusal(dangling)
    with pytest.raises(StorageError):
        read_torch_file(tmp_path / "missing.pt", {})
