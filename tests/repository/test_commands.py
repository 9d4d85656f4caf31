"""The commands that the README promises are the ones that exist and that the checks call."""

import os
import re

from tests.repository.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGETS = re.findall(
    r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
)


def test_readme_commands_exist():
    """Every `make` target that the README or a page names is in the Makefile."""
    pages = [README, *(p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md"))]
    command = re.compile(r"(?:^\$ |`)make ([a-z]+)", re.MULTILINE)
    named = {name for page in pages for name in command.findall(page)}
    assert {"demo", "test"} <= named
    assert named <= set(TARGETS)


def test_the_check_is_the_readme_command():
    """.ci/run is executable and runs `make test`, as the README says."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^exec make test$", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert "$ make test" in README


def test_links_lead_somewhere():
    """Relative links in the README, the changelog and the pages name files that exist."""
    broken = [
        f"{page.name}: {target}"
        for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken
