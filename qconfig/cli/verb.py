"""What all verbs share: the options for output, an example in the help, errors as exit codes."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from qconfig.cli.interrupts import exit_code_of
from qconfig.cli.output import Output, output_failed, silence_stdout, wants_color
from qconfig.errors import QconfigError, StorageError, UsageError
from qconfig.limits import use_limits

_SIGPIPE = 141
_MOST_DIGITS = 30

PATH = click.Path(path_type=Path)

allow_unmatched = click.option(
    "--allow-unmatched", is_flag=True, help="Accept rules that match nothing."
)
follow_symlinks = click.option(
    "--follow-symlinks", is_flag=True, help="Accept shards that are links to files elsewhere."
)
dialect = click.option(
    "--from",
    "dialect",
    metavar="DIALECT",
    help="In whose form it is: qconfig, torchao, torchao-pickle, brevitas, brevitas-safetensors. "
    "Found out unless you say so; pickles in a directory are read only then.",
)
writer = click.option(
    "--writer",
    metavar="RELEASE",
    help="What wrote it, such as torchao==0.13, where that is not in the files and matters.",
)
without_config = click.option(
    "--without-config",
    is_flag=True,
    help="Leave out the quantization config of config.json, where it is one that cannot be read.",
)
_log_json = click.option(
    "--log-json",
    is_flag=True,
    help="Write what is done to stderr, one JSON object a line, instead of a bar.",
)
_profile = click.option("--profile", is_flag=True, help="Print to stderr where the time went.")


_key = click.option(
    "--key", metavar="NAME", help="The entry of a pickled file that holds the state_dict."
)
_strip_prefix = click.option(
    "--strip-prefix",
    default="",
    metavar="TEXT",
    help="Taken off the names in a pickled file that begin with it, such as module.",
)


def place(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where in a pickled file its state_dict is."""
    return _key(_strip_prefix(command))


def observed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of long work; they go into the `output` that a verb gets."""
    return _log_json(_profile(command))


class Verb(click.Command):
    """A command whose function gets an `output` and returns its exit code, or None for 0."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
            click.Option(["-q", "--quiet"], is_flag=True, help="No progress and no notes."),
            click.Option(["--no-color"], is_flag=True, help="No colours; NO_COLOR does the same."),
            click.Option(
                ["--limit", "bounds"],
                multiple=True,
                metavar="NAME=VALUE",
                help="Another bound on what files may ask for, by the names that errors give.",
            ),
        ]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        if self.example:
            with formatter.section("Example"):
                formatter.write("".join(f"  {line}\n" for line in self.example.splitlines()))

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function; turn our errors, and the system's about files, into exit codes.

        Raises:
            click.exceptions.Exit: always, unless there is a bug.
        """
        flags = {name: ctx.params.pop(name) for name in ("as_json", "quiet", "no_color")}
        color = ctx.color = wants_color(flags)
        command = ctx.command_path.partition(" ")[2]
        observing = {name: ctx.params.pop(name, False) for name in ("log_json", "profile")}
        output = Output(command, flags["as_json"], flags["quiet"], color, **observing)
        ctx.params["output"] = output
        bounds = ctx.params.pop("bounds", ())
        try:
            code = self._run(ctx, output, bounds)
            sys.stdout.flush()
        except BrokenPipeError:
            silence_stdout()
            code = _SIGPIPE
        except OSError as error:  # `_run` has dealt with those of files
            code = output_failed(error)
        except KeyboardInterrupt as error:
            if not output.log_json:
                raise
            notes = getattr(error, "__notes__", [])
            output.log({"event": "interrupted", "notes": notes})
            code = exit_code_of(error)
        ctx.exit(code)

    def _run(self, ctx: click.Context, output: Output, bounds: Sequence[str]) -> int:
        try:
            with use_limits(**dict(map(_bound, bounds))):
                return super().invoke(ctx) or 0
        except QconfigError as error:
            output.failure(error)
            return error.exit_code
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                sys.stdout.flush()  # raises if it is the output that cannot be written
            reason = error.strerror or str(error)
            failure = StorageError(f"the system refused: {reason}", file=error.filename)
            output.failure(failure)
            return failure.exit_code


def _bound(text: str) -> tuple[str, int]:
    name, _, value = text.removeprefix("Limits.").partition("=")
    digits = value.replace("_", "")
    if not digits.isdecimal() or len(digits) > _MOST_DIGITS:
        raise UsageError(
            "not a limit", found=text, expected="NAME=VALUE, such as header_bytes=200000000"
        )
    return name, int(digits)


def verb(name: str, summary: str, *, example: str) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function the verb `name`; its docstring is the help.

    Args:
        name: what is typed.
        summary: what it does, in a few words, for the list of verbs.
        example: one or two calls, shown at the end of the help.
    """
    return click.command(name, cls=Verb, short_help=summary, example=example)
