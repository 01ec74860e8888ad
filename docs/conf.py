"""Sphinx configuration: MyST pages, the furo theme, formulas by a copy of MathJax that needs no network."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gallery
import observables

project = "learndyn"
author = "The learndyn authors"
copyright = f"2026, {author}"
version = release = installed_version("learndyn")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "picture_directive",
]
exclude_patterns = ["_build", "problems", "paper-figures"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "furo"
html_title = "learndyn"
html_static_path = ["static"]
html_css_files = ["pictures.css"]
smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 88


def to_restructured_text(app, what, name, obj, options, lines: list[str]) -> None:
    """The docstrings are plain text: `code` in backticks, formulas indented by four spaces."""
    converted, formula = [], False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not formula:
            converted += ["::", ""]
        formula = indented or (formula and not line)
        if not formula:
            pieces = re.split("`([^`]*)`", line)
            pieces[::2] = [re.sub(r"([*|\\])", r"\\\1", piece) for piece in pieces[::2]]
            pieces[1::2] = [f"``{piece}``" for piece in pieces[1::2]]
            line = "".join(pieces)
        converted.append(line)
    lines[:] = converted


def setup(app):
    observables.write()
    gallery.write()
    app.connect("autodoc-process-docstring", to_restructured_text)
