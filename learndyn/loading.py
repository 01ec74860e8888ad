"""Theories are imported when they are first needed: those of `learndyn.families`, then those of other packages.

A family is a package in `learndyn.families`; its module `theories` registers its theories with the core. Other packages
name a module that does the same in the entry-point group `learndyn.theories`.
"""

import importlib
import pkgutil
import threading
from importlib.metadata import EntryPoints, entry_points

_FAMILIES = "learndyn.families"
_lock = threading.RLock()
_started = False


def families() -> list[str]:
    """The names of the packages of the families."""
    folders = importlib.import_module(_FAMILIES).__path__
    return [f"{_FAMILIES}.{module.name}" for module in pkgutil.iter_modules(folders)]


def other_packages() -> EntryPoints:
    """The modules of other packages that register theories."""
    return entry_points(group="learndyn.theories")


def load_theories() -> None:
    """Import all theories, once. Within the import of a theory this does nothing; other threads wait for its end."""
    global _started
    with _lock:
        if _started:
            return
        _started = True
        try:
            for family in families():
                importlib.import_module(f"{family}.theories")
            for entry in other_packages():
                entry.load()
        except BaseException:
            _started = False
            raise
