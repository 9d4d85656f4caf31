"""The `qconfig` command: its verbs, and what becomes of a call that cannot start."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from qconfig.cli.failures import show_usage_error
from qconfig.cli.interrupts import show_interruption
from qconfig.cli.output import output_failed

# The verbs in the order of `qconfig --help`, with the module that holds each.
VERBS = {
    "validate": "qconfig.cli.validate",
    "plan": "qconfig.cli.plan",
    "explain": "qconfig.cli.explain",
    "quantize": "qconfig.cli.quantize",
    "inspect": "qconfig.cli.inspect",
    "upgrade": "qconfig.cli.upgrade",
    "convert": "qconfig.cli.convert",
    "verify": "qconfig.cli.verify",
    "diff": "qconfig.cli.diff",
    "doctor": "qconfig.cli.doctor",
    "schema": "qconfig.cli.schema",
    "history": "qconfig.cli.history",
}


class CommandLine(click.Group):
    """A group that imports a verb when it is asked for and exits with the codes of the docs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of a working day."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb; its module has it under the name `command`."""
        module = VERBS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's own signature
        **extra: Any,
    ) -> Any:
        """Run one call and leave with its exit code.

        Exceptions that are no errors of ours are bugs: they end in a traceback.

        Raises:
            SystemExit: always, unless there is a bug.
        """
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            code = self._run(arguments, prog_name or "qconfig", complete_var, **extra)
        except OSError as error:  # a verb's own are dealt with by then; this is stdout or stderr
            code = output_failed(error)
        sys.exit(code)

    def _run(
        self, arguments: list[str], prog_name: str, complete_var: str | None, **extra: Any
    ) -> int:
        try:
            code: int = super().main(
                arguments, prog_name, complete_var, standalone_mode=False, **extra
            )
        except click.ClickException as error:
            return show_usage_error(error, arguments)
        except click.Abort as error:
            cause = error.__cause__ or error.__context__
            return show_interruption(cause if cause is not None else error)
        return code


def _show_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"qconfig {version('qconfig')}")
        ctx.exit()


@click.group(
    "qconfig",
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Results go to stdout, progress and notes to stderr. Exit codes: 0 fine, 1 findings, "
    "2 usage, 3 invalid input, 4 written by a newer qconfig, 5 input or output failed.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Versioned configs and tensor layouts for quantized PyTorch models."""


def main() -> None:
    """Run the command line on `sys.argv`. Raises SystemExit."""
    for name in ("stdin", "stdout", "stderr"):
        # Who closes a stream wants nothing from it. The file keeps its number from any other file.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # torch warns when it is imported where numpy is not installed; nothing here needs it.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)
    cli.main()
