"""Calls that click refuses: wrong options, missing arguments, unknown verbs."""

from collections.abc import Sequence

import click

from qconfig.cli.output import Output, wants_color
from qconfig.errors import UsageError, printable


def show_usage_error(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Print what click refused, as JSON if that was asked for, and return the exit code."""
    context = getattr(error, "ctx", None)
    flags = {"no_color": "--no-color" in arguments}
    path = context.command_path if context is not None else ""
    output = Output(
        path.partition(" ")[2],
        "--json" in arguments,
        quiet=False,
        color=wants_color(flags),
        log_json="--log-json" in arguments,
    )
    if not arguments or type(error).__name__ == "NoArgsIsHelpError":  # new in click 8.2
        click.echo(error.format_message(), err=True, color=output.color)
        return UsageError.exit_code
    if output.as_json or output.log_json:
        output.failure(UsageError(error.format_message()))
        return UsageError.exit_code
    if context is not None:
        click.echo(printable(context.get_usage()), err=True)
        click.echo(f"Try '{path} --help' for help.\n", err=True)
    output.problem(UsageError(error.format_message()), err=True)
    return UsageError.exit_code
