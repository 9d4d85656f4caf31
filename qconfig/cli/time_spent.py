"""Where the time of long work went: what `--profile` prints."""

from attrs import define, field

from qconfig.checkpoints.events import Event, EventKind, Phase
from qconfig.cli.output import Output, human_bytes
from qconfig.cli.tables import Column, aligned

_COLUMNS = (
    Column("job"),
    Column("part"),
    Column("seconds", right=True),
    Column("share", right=True),
)


@define
class TimeSpent:
    """A listener that adds up what all threads have spent, by job and phase."""

    _spent: dict[str, dict[Phase, float]] = field(factory=dict, init=False)
    _ends: dict[str, Event] = field(factory=dict, init=False)

    def __call__(self, event: Event, /) -> None:
        """Add what an event says was spent."""
        spent = self._spent.setdefault(event.job, dict.fromkeys(Phase, 0.0))
        for phase, seconds in event.spent.items():
            spent[phase] += seconds
        if event.kind is EventKind.DONE:
            self._ends[event.job] = event

    def show(self, output: Output) -> None:
        """Print a table to stderr, or one line for each job to a log."""
        if output.log_json:
            for job, spent in self._spent.items():
                seconds = {str(phase): round(part, 6) for phase, part in spent.items()}
                output.log({"event": "profile", "job": job, "spent": seconds})
            return
        rows = [row for job, spent in self._spent.items() for row in _rows(job, spent)]
        output.aside(aligned(_COLUMNS, rows))
        output.aside(
            f"{job}: {human_bytes(end.done)} in {end.seconds:.2f} s, "
            f"{human_bytes(int(end.rate))}/s since its start"
            for job, end in self._ends.items()
        )


def _rows(job: str, spent: dict[Phase, float]) -> list[list[str]]:
    total = sum(spent.values())
    return [
        [job, str(phase), f"{seconds:.2f}", f"{100 * seconds / total if total else 0:.0f} %"]
        for phase, seconds in spent.items()
    ]
