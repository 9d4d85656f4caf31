"""Digests of parts of files, whatever the borders between what is read at once."""

from threading import enumerate as enumerate_threads

import pytest
import xxhash

from qconfig.codec import digests as d
from qconfig.codec import safetensors_writer
from qconfig.codec.regular_files import open_regular
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.tensor_values import ByteRange
from qconfig.errors import ContainerError
from tests.codec.writer_samples import lazy_values, sample_tensors

CONTENT = bytes(i * 7 % 251 for i in range(1000))


def test_the_algorithm_is_xxh3_of_64_bits():
    """The known answer of XXH3 for no bytes, and for a text."""
    assert d.digest(b"") == "2d06800538d394c2"
    assert d.digest(b"abc") == xxhash.xxh3_64(b"abc").hexdigest() == "78af5f94892f3950"


LENGTHS = [0, 1, 500, 0, 499, 0]


def parts():
    """Return the digests of the parts of CONTENT."""
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    return [d.digest(CONTENT[a : a + n]) for a, n in zip(starts, LENGTHS, strict=True)]


@pytest.mark.parametrize("buffer", [1, 7, 64, 5000])
@pytest.mark.parametrize("size_of_threads", [0, 2**20])
def test_parts_are_digested_across_borders(tmp_path, monkeypatch, buffer, size_of_threads):
    """Neither the buffer nor a thread changes a digest."""
    monkeypatch.setattr(d, "_BUFFER", buffer)
    monkeypatch.setattr(d, "_WORTH_A_THREAD", size_of_threads)
    (tmp_path / "f").write_bytes(b"xy" + CONTENT)
    with open_regular(tmp_path / "f") as file:
        assert list(d.digests_in(file, 2, LENGTHS)) == parts()
        with d.digested_beside(file, 2, LENGTHS) as found:
            pass
    assert found == parts()


@pytest.mark.parametrize("size_of_threads", [0, 2**20])
def test_an_error_ends_the_thread(tmp_path, monkeypatch, size_of_threads):
    """What happens while bytes are copied is raised, and what fails to be read, too."""
    monkeypatch.setattr(d, "_WORTH_A_THREAD", size_of_threads)
    (tmp_path / "f").write_bytes(CONTENT)
    with open_regular(tmp_path / "f") as file:
        with pytest.raises(KeyError), d.digested_beside(file, 0, LENGTHS):
            raise KeyError
        with (
            pytest.raises(ContainerError, match="cut short"),
            d.digested_beside(file, 1, LENGTHS),
        ):
            pass
    assert not [t for t in enumerate_threads() if t.name.startswith("qconfig-digests")]


def test_reading_stops_when_asked(tmp_path):
    """A part that is not read to its end has no digest."""
    (tmp_path / "f").write_bytes(CONTENT)
    answers = iter([True, False])
    with open_regular(tmp_path / "f") as file:
        found = list(d.digests_in(file, 0, LENGTHS, proceed=lambda: next(answers)))
    assert found == parts()[:2]


def test_a_file_that_ends_early_is_an_error(tmp_path):
    """The tensor is named."""
    (tmp_path / "f").write_bytes(b"abc")
    with pytest.raises(ContainerError, match="cut short") as caught:
        d.check_bytes("t", ByteRange(tmp_path / "f", 0, 9), d.BLANK)
    assert caught.value.fqn == "t"


@pytest.mark.parametrize("size_of_threads", [0, 2**20])
def test_copies_are_digested_as_they_are_copied(tmp_path, monkeypatch, size_of_threads):
    """Digests of copied tensors are those of the same tensors written from memory."""
    monkeypatch.setattr(d, "_WORTH_A_THREAD", size_of_threads)
    written, seen = tmp_path / "written", []

    def metadata(digests):
        seen.append(digests)
        return {"digests": "".join((digests.header, *digests.tensors))}

    safetensors_writer.write_safetensors(written, lazy_values(sample_tensors()), metadata)
    first, copied = seen[-1], lazy_tensors(read_header(written))
    assert first.tensors == tuple(
        d.digest(written.read_bytes()[t.source.offset :][: t.source.length])
        for _, t in sorted(copied.items())
    )
    safetensors_writer.write_safetensors(tmp_path / "copy", copied, metadata)
    assert seen[-1] == first
    assert (tmp_path / "copy").read_bytes() == written.read_bytes()


def test_known_digests_are_taken_over(tmp_path):
    """What is known of a byte range is not computed, so that damage of the source is not hidden."""
    seen, written = [], tmp_path / "written"
    safetensors_writer.write_safetensors(written, lazy_values(sample_tensors()), {})
    copied = lazy_tensors(read_header(written))

    def metadata(digests):
        seen.append(digests)
        return {"digests": "".join((digests.header, *digests.tensors))}

    for names in (list(copied), list(copied)[:1]):
        known = {copied[n].source: "f" * 16 for n in names if copied[n].source.length}
        safetensors_writer.write_safetensors(
            tmp_path / f"copy{len(names)}", copied, metadata, known=known
        )
        taken = dict(zip(sorted(copied), seen[-1].tensors, strict=True))
        wanted = {n for n in names if copied[n].source in known}
        assert {n for n, text in taken.items() if text == "f" * 16} == wanted
