"""Progress of long work, and tables."""

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from qconfig.checkpoints.events import Event, EventKind
from qconfig.cli import tables
from qconfig.cli.output import Output
from qconfig.cli.progress import lines, progress
from qconfig.cli.tables import Column, aligned, markdown, print_table
from qconfig.cli.workers import executor_of

OUTPUT = Output("quantize", as_json=False, quiet=False, color=None)


def tensor(done, total, seconds=0.0, job="quantize"):
    """Return the event of a finished tensor."""
    rate = done / seconds if seconds else 0.0
    return Event(
        kind=EventKind.TENSOR,
        job=job,
        tensor="a",
        done=done,
        total=total,
        seconds=seconds,
        rate=rate,
    )


def test_lines_have_bytes_and_rate():
    """A line says what is done, of how much, and how fast; at most one in ten seconds."""
    notes = []
    listen = lines(notes.append)
    listen(Event(kind=EventKind.START, job="upgrade", total=8_000_000))
    for i in range(1, 7):
        listen(tensor(i * 1_000_000, 8_000_000, i * 4.0, "upgrade"))
    assert notes == [
        "upgrade: 3 MB of 8 MB (37 %), 250 kB/s",
        "upgrade: 6 MB of 8 MB (75 %), 250 kB/s",
    ]


def test_quiet_has_no_progress(capsys, monkeypatch):
    """A quiet call shows no progress, even on a terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress(Output("x", as_json=False, quiet=True, color=None)) as listen:
        listen(tensor(1, 1))
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_is_not_lost():
    """Ctrl-C that somebody swallowed, as importing torch may, ends the work at its next tensor."""
    with progress(OUTPUT) as listen:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            listen(tensor(1, 10))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_interrupt_stays_ignored(monkeypatch):
    """Where Ctrl-C is ignored, as in a job in the background, it stays so."""
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    with progress(OUTPUT) as listen:
        listen(tensor(1, 10))
        assert signal.signal(signal.SIGINT, signal.default_int_handler) is (
            signal.default_int_handler
        )


def test_no_bar_in_a_pipe(capsys):
    """Short work in a pipe leaves nothing on either stream."""
    with progress(OUTPUT) as listen:
        listen(tensor(10, 10))
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    """On a terminal a bar with bytes goes to stderr, and is gone at the end."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(OUTPUT) as listen:
        listen(tensor(5_000_000, 10_000_000))
    out, err = capsys.readouterr()
    assert out == ""
    assert "quantize" in err


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads(jobs):
    """One job needs no executor; several get threads."""
    with executor_of(jobs) as executor:
        assert (executor is None) == (jobs == 1)
        assert executor is None or isinstance(executor, ThreadPoolExecutor)


COLUMNS = (Column("name"), Column("size", right=True))


def test_aligned():
    """Columns are aligned, and no line ends in spaces."""
    assert aligned(COLUMNS, [["a", "1"], ["long name", "1000"], ["b", ""]]) == [
        "name       size",
        "a             1",
        "long name  1000",
        "b",
    ]


def test_markdown():
    """A bar in a cell does not end the cell."""
    assert markdown(COLUMNS, [["a|b", "1"]]) == [
        "| name | size |",
        "| --- | ---: |",
        r"| a\|b | 1 |",
    ]


def test_a_pipe_gets_whole_cells(capsys):
    """In a pipe nothing is cut or wrapped, however long."""
    name = "x" * 500
    print_table(COLUMNS, [[name, "1"]], color=None)
    assert name in capsys.readouterr().out


def test_a_terminal_gets_a_drawn_table(capsys, monkeypatch):
    """On a terminal rich draws the table, and takes no markup from data."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(COLUMNS, [["[red]a[/red] :smile:", "1"]], color=False)
    out = capsys.readouterr().out
    assert "[red]a[/red] :smile:" in out
    assert "─" in out


def test_a_wide_table_is_not_folded(capsys, monkeypatch):
    """On a terminal that is too narrow the table is plain: cells are never folded."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_table(COLUMNS, [["x" * 50, "1"]], color=None)
    assert f"\n{'x' * 50}     1\n" in capsys.readouterr().out


def test_a_long_table_is_not_drawn(capsys, monkeypatch):
    """A table of very many rows is plain, since drawing it would take seconds."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(tables, "_MOST_DRAWN", 1)
    print_table(COLUMNS, [["a", "1"], ["b", "2"]], color=None)
    assert capsys.readouterr().out == "name  size\na        1\nb        2\n"
