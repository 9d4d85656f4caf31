"""Run the demo from the root of the repository: `python -m demo`. Exit code 1: a check failed."""

import os
import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demo.screen import Screen

# Nothing here needs a network, and nothing shall try one.
os.environ["HF_HUB_OFFLINE"] = "1"

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run all steps and return the exit code: 1 for a failed check, 2 without the weights."""
    from demo.screen import Screen
    from demo.weights import NoWeightsError
    from qconfig import QconfigError

    screen = Screen()
    try:
        run(screen)
    except NoWeightsError as error:
        screen.say(f"error: {error}")
        return 2
    except QconfigError as error:
        screen.say(str(error))
        screen.check("no error of qconfig stops the demo", holds=False)
    return screen.end()


def run(screen: "Screen") -> None:
    """Run all steps.

    Raises:
        NoWeightsError: the package that carries the weights is missing.
        QconfigError: a step failed where there is no command to report it.
    """
    from demo import running, steps

    screen.headline("The model")
    steps.prepare(screen)
    screen.headline("Validate")
    steps.validate(screen)
    screen.headline("Plan")
    steps.plan(screen)
    screen.headline("Quantize")
    steps.quantize(screen)
    screen.headline("Inspect")
    steps.inspect(screen)
    screen.headline("Load and run")
    embeddings = running.run_models(screen)
    screen.headline("Upgrade an old checkpoint")
    steps.upgrade(screen)
    running.run_upgraded(screen, embeddings)


if __name__ == "__main__":
    with chdir(ROOT):
        sys.exit(main())
