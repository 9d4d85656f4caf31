"""Tables: drawn by rich on a terminal where they fit, plain columns everywhere else."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

import click
from attrs import frozen

# rich lays out about 2,000 rows a second; a table of all tensors of a large model has 50,000.
_MOST_DRAWN = 500


@frozen
class Column:
    """One column of a table."""

    title: str
    right: bool = False


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, color: bool | None
) -> None:
    """Print rows of printable text; in a pipe no cell is cut or wrapped."""
    lines = aligned(columns, rows)
    # Drawn, a column takes one character more. Folded cells are worse than long lines.
    needed = max(map(len, lines)) + len(columns)
    fits = needed <= get_terminal_size().columns
    if sys.stdout.isatty() and fits and len(rows) <= _MOST_DRAWN:
        _draw(columns, rows, color=color)
        return
    click.echo("\n".join(lines))


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a plain table, two spaces between columns."""
    table = [[column.title for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in table
    ]


def markdown(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    head = [column.title for column in columns]
    rule = ["---:" if column.right else "---" for column in columns]
    return [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
        for row in [head, rule, *rows]
    ]


def _draw(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, color: bool | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(
            Text(column.title), justify="right" if column.right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console(no_color=color is False, markup=False, highlight=False, emoji=False).print(table)
