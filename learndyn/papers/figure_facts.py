"""What is told of a picture without making it: `FigureFacts`. Nothing here imports JAX or matplotlib."""

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Sequence

from learndyn.loading import other_packages

_CAPTIONS = "learndyn.papers.captions"
_REGISTRY = "learndyn.papers.registry"


@dataclasses.dataclass(frozen=True)
class FigureFacts:
    """What `learndyn figures` tells of a picture of a paper.

    - `name`: such as "primer-1".
    - `title`: one line.
    - `caption`: what is shown, and with which parameters.
    - `reference`: the paper.
    - `minutes`: a rough duration on two cores.
    """

    name: str
    title: str
    caption: str
    reference: str
    minutes: float


def facts_of(
    reference: str, pictures: Iterable[tuple[str, str, str, float]]
) -> dict[str, FigureFacts]:
    """The facts of pictures of one paper, given as name, title, caption and minutes; by name."""
    return {
        name: FigureFacts(name, title, caption, reference, minutes)
        for name, title, caption, minutes in pictures
    }


def modules() -> list[str]:
    """The names of the modules in `learndyn.papers` that make pictures, and of those in `captions`."""
    folders = importlib.import_module(_CAPTIONS).__path__
    return [module.name for module in pkgutil.iter_modules(folders)]


def known_figures() -> Sequence[FigureFacts]:
    """The facts of all pictures, by name.

    Those of the library stand in `captions`, which imports quickly. Other packages must be imported to tell theirs.
    """
    # A program that has imported the registry may have registered pictures of its own.
    if _REGISTRY in sys.modules or other_packages():
        return importlib.import_module(_REGISTRY).figures()
    captions = [importlib.import_module(f"{_CAPTIONS}.{name}") for name in modules()]
    facts = [facts for module in captions for facts in module.FACTS.values()]
    return sorted(facts, key=lambda facts: facts.name)
