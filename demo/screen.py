"""What the demo prints: headlines, commands as one types them, tables, and checks."""

import ast
import inspect
import shlex
import textwrap
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field

T = TypeVar("T")


@define
class Screen:
    """Prints the steps of the demo and remembers which checks failed."""

    failures: list[str] = field(factory=list)
    _begin: float = field(factory=monotonic)
    _step: int = 0

    def headline(self, text: str) -> None:
        """Begin a step."""
        self._step += 1
        title = f"{self._step}. {text}"
        print(f"\n{title}\n{'=' * len(title)}", flush=True)

    def say(self, text: str = "") -> None:
        """Print a remark."""
        print(text, flush=True)

    def qconfig(self, arguments: str) -> None:
        """Run `qconfig` with these arguments in this process; it has to leave with 0."""
        from qconfig.cli.main import cli

        print(f"\n$ qconfig {arguments}", flush=True)
        code: object = 0
        try:
            cli.main(shlex.split(arguments))
        except SystemExit as leave:
            code = leave.code or 0
        if code != 0:
            self.check(f"qconfig {arguments} leaves with 0, found {code}", holds=False)

    def python(self, function: Callable[..., T], *arguments: Any) -> T:
        """Print the statements of a function as a Python session, then run it."""
        print()
        for line in _session(function):
            print(line, flush=True)
        return function(*arguments)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table whose first column is text and whose others are numbers."""
        print(f"\n{title}")
        widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            cells = [c.rjust(w) for c, w in zip(row, widths, strict=True)]
            print("  ".join(["", row[0].ljust(widths[0]), *cells[1:]]), flush=True)

    def check(self, claim: str, *, holds: bool) -> None:
        """Print whether a claim holds; one that does not makes the demo fail."""
        print(f"{'ok  ' if holds else 'FAIL'}  {claim}", flush=True)
        if not holds:
            self.failures.append(claim)

    def end(self) -> int:
        """Print the time taken and what failed, and return the exit code."""
        print(f"\n{monotonic() - self._begin:.1f} s in all", flush=True)
        for claim in self.failures:
            print(f"failed: {claim}", flush=True)
        return 1 if self.failures else 0


def _session(function: Callable[..., Any]) -> list[str]:
    """Return the body of a function as lines typed at a prompt, without docstring and return."""
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    if not isinstance(definition, ast.FunctionDef):
        return []
    body, first = definition.body, 1
    if ast.get_docstring(definition):
        first = body[0].end_lineno or 1  # comments below it are shown
        body = body[1:]
    if isinstance(body[-1], ast.Return) and isinstance(body[-1].value, ast.Name):
        body = body[:-1]  # nobody types the name of what is handed back
    text = textwrap.dedent("\n".join(source.splitlines()[first : body[-1].end_lineno]))
    inner = (" ", ")", "]", "}")
    return [
        ("... " if line.startswith(inner) else ">>> ") + line.removeprefix("return ")
        for line in text.splitlines()
    ]
