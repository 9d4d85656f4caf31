"""Sphinx settings: MyST pages, Furo, and a reference made from the registered classes."""

import sys
import tomllib
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

_PROJECT = tomllib.loads((_HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
author = "The qconfig authors"
copyright = author  # noqa: A001  # the name Sphinx wants
release = version = _PROJECT["version"]

extensions = ["myst_parser", "class_tables"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"{project} {version}"
