"""Runs that fail, are killed, go on, or find something else than before, in any order."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.cli.calls import call
from tests.faults.calls import Kind
from tests.faults.expectations import leftover_of
from tests.faults.operations import CONFIGS, NAMES, OPERATIONS, digest_of

FAILURES = tuple(kind for kind in Kind if not kind.kills and not kind.stops)
PLACES = st.integers(1, 95)
CHOICES = st.integers(0, len(CONFIGS) - 1)


class History(RuleBasedStateMachine):
    """What may happen to one target, and what has to be true then.

    The model is the digests that source and target have to have, and the config with which what is
    left was begun, if that is known.
    """

    ask: Callable[..., Any]
    home: Path

    def __init__(self) -> None:
        super().__init__()
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "place").mkdir(parents=True)
        self.source, self.target = self.home / "source", self.home / "place" / "target"
        OPERATIONS["quantize"].make(self.source)
        self.finals: dict[int, str] = {}  # by config, of the source as it is
        self.begun: int | None = None  # the config of what is left, None where it is not known
        self.there = ""
        self.before = digest_of(self.source)

    def final(self, config: int) -> str:
        """Return what a run that nothing disturbs makes of the source as it is."""
        if config not in self.finals:
            other = self.home / "undisturbed"
            shutil.rmtree(other, ignore_errors=True)
            OPERATIONS["quantize"].run(self.source, other, config=CONFIGS[config])
            self.finals[config] = digest_of(other)
        return self.finals[config]

    @property
    def leftover(self) -> Path:
        """Where runs work."""
        return leftover_of(self.target)

    def attempt(self, config: int, place: int, kind: Kind) -> None:
        """Run, and compare what became of it with what may."""
        kept = digest_of(self.leftover / "content")
        may_be_other = self.leftover.exists() and self.begun != config
        done = self.ask("attempt", home=self.home, config=config, place=place, kind=kind)
        assert not done["left_open"], done
        now = digest_of(self.target)
        if self.there:
            assert now == self.there, done
            return
        if done["error"] == "UsageError":
            assert may_be_other, done
            assert not now
            assert digest_of(self.leftover / "content") == kept
            return
        assert done["killed"] or done["refused"] or done["error"] is None, done
        assert now in {"", self.final(config)}, done
        assert now or done["error"] or done["killed"], done
        self.there = now
        # What is of another may have been there still, or there again.
        self.begun = None if may_be_other else config

    @rule(config=CHOICES)
    def run_undisturbed(self, config: int) -> None:
        """Without a fault, a run is done, or refused because of what is left."""
        self.attempt(config, 10**6, Kind.IO)
        assert self.there or self.leftover.exists()

    @rule(config=CHOICES, place=PLACES, kind=st.sampled_from(FAILURES))
    def run_with_a_fault(self, config: int, place: int, kind: Kind) -> None:
        """Let one call fail."""
        self.attempt(config, place, kind)

    @rule(config=CHOICES, place=PLACES, kind=st.sampled_from([Kind.KILL_HALF, Kind.STOP_BEFORE]))
    def kill(self, config: int, place: int, kind: Kind) -> None:
        """Kill the run at one call."""
        self.attempt(config, place, kind)

    @rule(name=st.sampled_from([*NAMES, "config.json", "run.sh"]))
    def change_source(self, name: str) -> None:
        """Change a file of the source; what is left is of another then."""
        path = self.source / name
        content = path.read_bytes()
        is_json = name == "config.json"
        path.write_bytes(content + b" " if is_json else content[:-1] + bytes([content[-1] ^ 1]))
        self.before, self.finals = digest_of(self.source), {}
        self.begun = -1 if self.begun is not None else None

    @rule()
    def remove_target(self) -> None:
        """Take the target away, as somebody does who wants it made again."""
        if self.there:
            shutil.rmtree(self.target)
            self.there = ""

    @rule()
    def doctor(self) -> None:
        """Remove what is left, by the command."""
        assert call("doctor", "--remove", self.target.parent).exit_code == 0
        assert not self.leftover.exists()
        self.begun = None

    @rule(position=st.integers(0, 7), at=st.floats(0, 1), cut=st.booleans())
    def damage_leftover(self, position: int, at: float, *, cut: bool) -> None:
        """Change a byte of a file that is left, or cut the file there."""
        files = sorted(p for p in self.leftover.rglob("*") if p.is_file() and p.stat().st_size)
        if not files:
            return
        path = files[position % len(files)]
        content = bytearray(path.read_bytes())
        place = int(at * (len(content) - 1))
        content[place] ^= 1
        path.write_bytes(content[:place] if cut else content)
        if path.name == "journal":
            self.begun = None

    @invariant()
    def nothing_else_has_changed(self) -> None:
        """The source is as it was, the target as it was made, and nothing else lies beside it."""
        assert digest_of(self.source) == self.before
        assert digest_of(self.target) == self.there
        assert {p.name for p in self.target.parent.iterdir()} <= {"target", self.leftover.name}

    def teardown(self) -> None:
        """A last run without a fault ends as if nothing had been."""
        if self.there:
            return
        self.doctor()
        self.attempt(0, 10**6, Kind.IO)
        assert self.there == self.final(0)
        assert not self.leftover.exists()


def test_any_history(ask, tmp_path):
    """Whatever happens in whatever order, nothing half-made has the name of the target."""
    machine = type("Machine", (History,), {"ask": staticmethod(ask), "home": tmp_path / "home"})
    examples = min(max(settings.default.max_examples // 4, 1), 250)
    few = settings(max_examples=examples, stateful_step_count=12)
    run_state_machine_as_test(machine, settings=few)
