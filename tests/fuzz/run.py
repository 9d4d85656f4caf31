"""Fuzz one target, or all of them in turn, for a while.

    python -m tests.fuzz.run [TARGET...] [--seconds 60] [--kept .fuzz]

With atheris (the extra `fuzz`), guided by which lines run; without it, with changes of seeds at
random. What the fuzzer adds to a corpus, and bytes that raise what is no error of ours, stay below
the folder `--kept`. To keep such bytes as a test, copy the file into `tests/fuzz/corpus/<target>/`
with a name that ends in `.seed`.
"""

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
GUIDED = importlib.util.find_spec("atheris") is not None
_LONGEST_RUN = 20
_MOST_MEMORY = 4096
_OWN_CHANGES = 0.7


def main() -> int:
    """Run each target in a process of its own; return how many have findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    names = sorted(path.name for path in CORPUS.iterdir())
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names))
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--kept", type=Path, default=Path(".fuzz"), help="where findings go")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in names]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(names)}")
    if options.here:
        return one(options.targets[0], options.seconds, options.kept)
    failed = []
    for name in options.targets or names:
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        words = [name, "--here", "--seconds", str(options.seconds), "--kept", str(options.kept)]
        if subprocess.run([sys.executable, "-m", "tests.fuzz.run", *words], check=False).returncode:
            failed.append(name)
    sys.stdout.write(f"findings: {', '.join(failed) or 'none'}; kept in {options.kept}\n")
    return len(failed)


def one(name: str, seconds: int, kept: Path) -> int:
    """Fuzz one target in this process and return 0, or 1 after a finding."""
    warnings.simplefilter("error")
    kept = kept / name
    (kept / "corpus").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if GUIDED:
            return _guided(name, seconds, kept, Path(folder))
        return _at_random(name, seconds, kept, Path(folder))


def _guided(name: str, seconds: int, kept: Path, folder: Path) -> int:
    import atheris  # first: what is imported below is instrumented

    with redirect_stderr(StringIO()), atheris.instrument_imports(include=["qconfig"]):
        from tests.fuzz.mutations import mutated
        from tests.fuzz.targets import attempt

    def change(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < _OWN_CHANGES:
            return mutated(data, rng)[:most]
        return atheris.Mutate(data, most)

    def run(data: bytes) -> None:
        attempt(name, data, folder)

    words = [
        f"-max_total_time={seconds}",
        f"-timeout={_LONGEST_RUN}",
        f"-rss_limit_mb={_MOST_MEMORY}",
        "-max_len=65536",
        "-print_final_stats=1",
        "-verbosity=0",
        f"-artifact_prefix={kept}/",
        str(kept / "corpus"),
        str(CORPUS / name),
    ]
    atheris.Setup([sys.argv[0], *words], run, custom_mutator=change)
    atheris.Fuzz()  # ends the process
    return 0


def _at_random(name: str, seconds: int, kept: Path, folder: Path) -> int:
    from tests.fuzz.mutations import mutated
    from tests.fuzz.targets import attempt

    sys.stdout.write("atheris is not installed: seeds are changed at random\n")
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    rng, runs, end = random.Random(), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng.choice(seeds), rng)
        runs += 1
        try:
            attempt(name, data, folder)
        except Exception:  # noqa: BLE001 - any is a finding
            path = kept / f"crash-{runs}"
            path.write_bytes(data)
            traceback.print_exc()
            sys.stdout.write(f"written to {path}\n")
            return 1
    sys.stdout.write(f"{runs} runs\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
