"""The command line: one file a verb, heavy modules imported only where a verb needs them."""

import sys


def run() -> None:
    """Run the command line on `sys.argv`, or say what is not installed. Raises SystemExit."""
    try:
        from qconfig.cli.main import main
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("error: the command needs the extra cli: pip install 'qconfig[cli]'\n")
        sys.exit(2)
    main()
