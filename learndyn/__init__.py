"""learndyn: how neural networks learn, exactly, in the limit where they are large.

A public name is imported from its module when it is first used, so that `import learndyn` takes no time. Which name is
in which module stands in `__init__.pyi`, once for Python, editors and type checkers.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

_stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_modules = {
    alias.name: node.module
    for node in _stub.body
    if isinstance(node, ast.ImportFrom) and node.module is not None
    for alias in node.names
}

__all__ = sorted(_modules)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes longer than all else in this module

        value = version("learndyn")
    elif name in _modules:
        value = getattr(importlib.import_module(_modules[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
