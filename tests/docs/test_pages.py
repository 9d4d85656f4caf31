"""What makes the pages: the runner of their examples, and the reference from the classes."""

import attrs
import pytest

from docs.class_tables import markdown
from qconfig.versioning import registry
from tests.docs.page import blocks, run


@pytest.mark.parametrize("entry", [*registry.entries()], ids=str)
def test_reference_has_every_field(entry):
    """The reference names every class, each of its versions, and each of their fields."""
    text = markdown().split(f"\n### {entry.name}\n")[1].split("\n### ")[0]
    if entry.kind != "value":
        text = text.split(f"**Version {entry.version}")[1].split("\n**Version ")[0]
    assert entry.title in text
    for field in attrs.fields(entry.cls):
        assert f"| `{field.name}` |" in text


def test_a_step_to_another_name_says_it():
    """Where a name has ended, the reference says which one its last step leads to."""
    text = markdown().split("\n### BlockSparseTensorLayout\n")[1].split("\n### ")[0]
    assert "**Version 1, retired.**" in text
    assert "- to Int8TensorLayout version " in text


def page(tmp_path, text):
    """Write a page."""
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_blocks_share_one_module(tmp_path, monkeypatch):
    """A page's blocks see the names and the document of the blocks above them."""
    monkeypatch.chdir(tmp_path)
    text = (
        '```json\n{"a": 1}\n```\n'
        '```python\nfrom pathlib import Path\n\nx = Path("quant.json").read_text()\n```\n'
        "```python\n>>> x\n'{\"a\": 1}\\n'\n\n```\n"
        "```console\n$ false\n```\n"
    )
    path = page(tmp_path, text)
    assert [(language, line) for language, _, line in blocks(path)] == [
        ("json", 1),
        ("python", 4),
        ("python", 9),
    ]
    assert run(path) == 0


def test_a_wrong_example_is_seen(tmp_path, capsys):
    """An example that prints something else fails and names its line."""
    assert run(page(tmp_path, "# T\n\n```python\n>>> 1 + 1\n3\n\n```\n")) == 1
    assert "line 4" in capsys.readouterr().out


def test_wrong_code_is_seen(tmp_path):
    """Code without a prompt that raises stops the page."""
    with pytest.raises(ZeroDivisionError):
        run(page(tmp_path, "```python\n1 / 0\n```\n"))
