"""Digests of parts of files, whatever the borders between what is read at once."""

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


@pytest.mark.parametrize("buffer", [1, 7, 64, 5000])
@pytest.mark.parametrize("window", [None, 1, 50, 999])
def test_parts_are_digested_across_borders(tmp_path, monkeypatch, buffer, window):
    """Neither the buffer nor the window of what is ready changes a digest."""
    monkeypatch.setattr(d, "_BUFFER", buffer)
    (tmp_path / "f").write_bytes(b"xy" + CONTENT)
    lengths, ready, asked = [0, 1, 500, 0, 499, 0], None, []
    if window is not None:

        def ready(done):
            asked.append(done)
            return min(done + window, 1000)

    with open_regular(tmp_path / "f") as file:
        found = list(d.digests_in(file, 2, lengths, ready=ready))
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    parts = [CONTENT[a : a + n] for a, n in zip(starts, lengths, strict=True)]
    assert found == [d.digest(part) for part in parts]
    assert asked == list(range(0, 1000, window) if window else [])


def test_a_file_that_ends_early_is_an_error(tmp_path):
    """The tensor is named."""
    (tmp_path / "f").write_bytes(b"abc")
    with pytest.raises(ContainerError, match="cut short") as caught:
        d.check_bytes("t", ByteRange(tmp_path / "f", 0, 9), d.BLANK)
    assert caught.value.fqn == "t"


@pytest.mark.parametrize("window", [3, 2**20])
def test_copies_are_digested_as_they_are_copied(tmp_path, monkeypatch, window):
    """Digests of copied tensors are those of the same tensors written from memory."""
    monkeypatch.setattr(safetensors_writer, "_WINDOW", window)
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
