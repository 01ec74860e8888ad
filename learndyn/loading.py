"""Theories are imported when they are first needed: those of `learndyn.families`, then those of other packages.

A family is a package in `learndyn.families`; its module `theories` registers its theories with the core, and its module
`network` has the kinds of parts that problem files may name. Other packages name a module that registers theories in
the entry-point group `learndyn.theories`. Importing all families takes seconds, and a network of a family has its
theories there, so that problems with such a network need that family only.
"""

import importlib
import pkgutil
import threading
from importlib.metadata import EntryPoints, entry_points

_FAMILIES = "learndyn.families"
_lock = threading.RLock()
_loading = False
_loaded: set[str | None] = set()
"""The families that were imported; None stands for all of them and the other packages."""


def families() -> list[str]:
    """The names of the packages of the families."""
    folders = importlib.import_module(_FAMILIES).__path__
    return [f"{_FAMILIES}.{module.name}" for module in pkgutil.iter_modules(folders)]


def other_packages() -> EntryPoints:
    """The modules of other packages that register theories."""
    return entry_points(group="learndyn.theories")


def load_theories(network: type | None = None) -> None:
    """Import all theories, once; or at least all those for a class of networks, if it is given.

    Within the import of a theory this does nothing; other threads wait for its end.
    """
    global _loading
    family = None if network is None else _family_of(network)
    if None in _loaded or family in _loaded:
        return
    with _lock:
        if _loading or None in _loaded or family in _loaded:
            return
        others = other_packages()
        # Theories of other packages replace those of the same name, which must be there before.
        whole = family is None or bool(others)
        _loading = True
        try:
            for name in families() if whole else [family]:
                importlib.import_module(f"{name}.theories")
            for entry in others:
                entry.load()
            _loaded.add(None if whole else family)
        finally:
            _loading = False


def load_kinds() -> None:
    """Import all kinds of parts that problem files may name; those of other packages come with their theories."""
    if other_packages():
        load_theories()
    importlib.import_module("learndyn.problem.examples")
    for name in families():
        importlib.import_module(f"{name}.network")


def _family_of(network: type) -> str | None:
    """The family in which a class of networks is defined, or None."""
    inside = network.__module__.startswith(f"{_FAMILIES}.")
    return ".".join(network.__module__.split(".")[:3]) if inside else None
