"""`learndyn cite`: what to cite for a result."""

from pathlib import Path
from typing import Annotated

import typer

import learndyn as ld
from learndyn.bibliography import of_learndyn, of_reference
from learndyn.cli.console import say
from learndyn.core.facts import known_facts
from learndyn.errors import ProblemError, nearest


def cite(
    result: Annotated[
        str,
        typer.Argument(
            metavar="RESULT.nc",
            show_default=False,
            help="From `learndyn solve` or `learndyn simulate`; or the name of a theory, such as "
            "two_layer/stream.",
        ),
    ],
) -> None:
    """Print BibTeX entries of what to cite for a saved result.

    These are the papers of the theory, the libraries that it was solved or trained with, and
    learndyn. For the name of a theory, the libraries are left out, as they depend on the method.
    """
    known = {facts.name: facts for facts in known_facts()}
    if result in known:
        say("\n\n".join([*of_reference(known[result].reference), of_learndyn()]))
    elif Path(result).suffix == ".nc":
        say(ld.cite(ld.load(result)))
    else:
        allowed = f"must be a file that ends in .nc, or a theory; {nearest(result, known)}"
        raise ProblemError("RESULT", result, allowed)
