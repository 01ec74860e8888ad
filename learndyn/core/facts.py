"""What is told of a theory without computing anything: `Facts`. Nothing here imports JAX, nor anything that does."""

import dataclasses
import importlib
import sys
from pathlib import Path

from learndyn.loading import families, other_packages


@dataclasses.dataclass(frozen=True)
class Facts:
    """What `learndyn theories` and `learndyn new` tell of a theory; `learndyn.core.theory.Theory` explains the fields.

    `network`, `task`, `supply` and `training` are names of classes here.
    """

    name: str
    network: str
    task: str
    supply: str
    training: str
    summary: str
    exactness: str
    reference: str
    template: Path

    @property
    def combination(self) -> str:
        """The parts of a problem that the theory is for, as words."""
        return combination(self.network, self.task, self.supply, self.training)


def combination(network: str, task: str, supply: str, training: str) -> str:
    """The names of the classes of a problem's parts, as words."""
    data = supply if task == supply else f"{supply} of {task}"
    return f"{network} on {data} by {training}"


def known_facts() -> list[Facts]:
    """The facts of all theories, by name.

    Those of the library stand in the modules `facts` of the families, which import quickly. Theories of other packages
    must be imported to tell theirs.
    """
    # A program that has imported the theories may have registered some of its own.
    if "learndyn.core.theory" in sys.modules or other_packages():
        theories = importlib.import_module("learndyn.core.theory").theories()
        return [theory.facts for theory in theories]
    modules = [importlib.import_module(f"{family}.facts") for family in families()]
    return sorted(
        (facts for module in modules for facts in module.FACTS.values()),
        key=lambda facts: facts.name,
    )
