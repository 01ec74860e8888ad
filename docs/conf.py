"""Sphinx configuration: MyST pages, the furo theme, formulas by MathJax."""

from importlib.metadata import version as installed_version

project = "learndyn"
author = "The learndyn authors"
copyright = f"2026, {author}"
version = release = installed_version("learndyn")

extensions = ["myst_nb", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "furo"
html_title = "learndyn"
