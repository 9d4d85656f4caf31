"""Every example in README.md and docs/ runs, and every JSON document there is valid."""

import doctest
import importlib
import json
import os
import subprocess
import sys

import pytest

from qconfig.api import validate_config
from tests.docs.page import blocks
from tests.repository.sources import ROOT, modules

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = [p for p in PAGES if any(language == "python" for language, *_ in blocks(p))]
DOCUMENTS = [
    pytest.param(text, id=f"{page.name}:{line}")
    for page in PAGES
    for language, text, line in blocks(page)
    if language == "json"
]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda p: p.name)
def test_page_runs(page):
    """The examples of a page, in a process and folder of its own, print what the page says."""
    environment = {**os.environ, "PYTHONUTF8": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.docs.page", str(page)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("text", DOCUMENTS)
def test_document_is_valid(text):
    """A JSON document on a page is a valid config."""
    assert validate_config(json.loads(text)) == []


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name):
    """Examples in docstrings print what they say."""
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
