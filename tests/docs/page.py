"""Run the examples of one page, from top to bottom, as one Python module.

    python -m tests.docs.page FILE

Blocks marked `python` run: as a doctest if they have a prompt, as plain code if not. Blocks marked
`json` are written to `quant.json`, for the blocks below them. Everything else (`console`,
`{code-block} python`) is only read. The folder is a temporary one, so that nothing is left behind.
"""

import doctest
import re
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

_BLOCK = re.compile(r"^```(python|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """Return language, text and first line of each block that is run or written."""
    text = path.read_text(encoding="utf-8")
    return [(m[1], m[2], text[: m.start(2)].count("\n")) for m in _BLOCK.finditer(text)]


def run(path: Path) -> int:
    """Run the page and return the number of examples that failed; code that raises, raises."""
    module = ModuleType("page")
    sys.modules["page"] = module  # where attrs looks up the annotations of classes
    names = module.__dict__
    runner = doctest.DocTestRunner(optionflags=_OPTIONS, verbose=False)
    for language, text, line in blocks(path):
        if language == "json":
            Path("quant.json").write_text(text, encoding="utf-8")
        elif ">>> " in text:
            example = doctest.DocTestParser().get_doctest(text, names, path.name, str(path), line)
            runner.run(example, clear_globs=False)
            names.update(example.globs)
        else:
            code = compile("\n" * line + text, str(path), "exec")
            exec(code, names)  # noqa: S102  # our own page
    return runner.summarize(verbose=False).failed


if __name__ == "__main__":
    page = Path(sys.argv[1]).resolve()
    with TemporaryDirectory() as folder, chdir(folder):
        failed = run(page)
    sys.exit(failed)
