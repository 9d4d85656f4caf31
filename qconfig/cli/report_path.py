"""Where a verb may write its report: checked before the work, which may take hours."""

import os
from pathlib import Path

from qconfig.errors import UsageError


def check_report(report: Path | None, source: Path, target: Path | None) -> None:
    """Check that a report can be written where the user wants it.

    Args:
        report: a file, or None.
        source: what the verb reads and never touches.
        target: the directory or file that the verb makes, or None.

    Raises:
        UsageError: the report exists, is the target, lies in the source or in no directory.
    """
    if report is None:
        return
    if os.path.lexists(report):
        raise UsageError("the report exists", file=report, hint="choose another name")
    real = report.resolve()
    wanted = None if target is None else target.resolve()
    if real == wanted:
        raise UsageError("report and target are one", file=report, hint="choose another name")
    if source.is_dir() and real.is_relative_to(source.resolve()):
        raise UsageError(
            "the report lies in the source, which is not touched",
            file=report,
            expected=f"a file outside {source}",
        )
    if not real.parent.is_dir() and real.parent != wanted:
        raise UsageError(
            "no directory for the report", file=report, found=str(report.parent), hint="make it"
        )
