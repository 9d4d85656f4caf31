"""Fuzz one target, or all of them in turn, for a while.

    python -m tests.fuzz.run [TARGET...] [--seconds 60] [--jobs 1] [--fixed] [--kept .fuzz]

With atheris (the extra `fuzz`), guided by which lines run; without it, with changes of seeds at
random. What the fuzzer adds to a corpus, and bytes that raise what is no error of ours, stay below
the folder `--kept`. To keep such bytes as a test, copy the file into `tests/fuzz/corpus/<target>/`
with a name that ends in `.seed`.

`--fixed` begins with the corpus of the repository alone and with the same random numbers each time;
`make test` does that with the four targets that `--named` stands for.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
GUIDED = importlib.util.find_spec("atheris") is not None
NAMED = ("header", "index", "config_json", "torchao_metadata")
"""What `make test` fuzzes: the header, the index, the config document and torchao's metadata."""
_SEED = 1
_LONGEST_RUN = 20
_MOST_MEMORY = 4096
_OWN_CHANGES = 0.7


def main() -> int:
    """Run each target in a process of its own; return how many have findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    names = sorted(path.name for path in CORPUS.iterdir())
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names))
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time (1)")
    parser.add_argument("--fixed", action="store_true", help="the same beginning each time")
    parser.add_argument("--named", action="store_true", help=f"stands for {', '.join(NAMED)}")
    parser.add_argument("--kept", type=Path, default=Path(".fuzz"), help="where findings go")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in names]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(names)}")
    if options.here:
        return one(options.targets[0], options.seconds, options.kept, fixed=options.fixed)
    wanted = NAMED if options.named else options.targets or names
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = pool.map(lambda name: apart(name, options), wanted)
        failed = [name for name, code in zip(wanted, codes, strict=True) if code]
    sys.stdout.write(f"findings: {', '.join(failed) or 'none'}; kept in {options.kept}\n")
    return len(failed)


def apart(name: str, options: argparse.Namespace) -> int:
    """Fuzz one target in a process of its own, show what it says, and return its exit code."""
    words = [name, "--here", "--seconds", str(options.seconds), "--kept", str(options.kept)]
    words += ["--fixed"] if options.fixed else []
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", *words],
        check=False,
        stdout=subprocess.PIPE if options.jobs > 1 else None,
        stderr=subprocess.STDOUT,
    )
    sys.stdout.write(f"== {name}\n{(done.stdout or b'').decode(errors='replace')}")
    sys.stdout.flush()
    return done.returncode


def one(name: str, seconds: int, kept: Path, *, fixed: bool) -> int:
    """Fuzz one target in this process and return 0, or 1 after a finding."""
    warnings.simplefilter("error")
    kept = kept / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fuzz = _guided if GUIDED else _at_random
        files = Path(folder) / "files"
        grown = Path(folder) / "corpus" if fixed else kept / "corpus"
        for path in (files, grown):
            path.mkdir(exist_ok=True)
        return fuzz(name, seconds, kept, files, grown, _SEED if fixed else None)


def _guided(
    name: str, seconds: int, kept: Path, folder: Path, grown: Path, seed: int | None
) -> int:
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
        *([f"-seed={seed}"] if seed is not None else []),
        str(grown),
        str(CORPUS / name),
    ]
    atheris.Setup([sys.argv[0], *words], run, custom_mutator=change)
    atheris.Fuzz()  # ends the process
    return 0


def _at_random(name: str, seconds: int, kept: Path, folder: Path, _: Path, seed: int | None) -> int:
    from tests.fuzz.mutations import mutated
    from tests.fuzz.targets import attempt

    sys.stdout.write("atheris is not installed: seeds are changed at random\n")
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    rng, runs, end = random.Random(seed), 0, time.monotonic() + seconds
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
