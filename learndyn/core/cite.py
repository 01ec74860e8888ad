"""`cite`: what to cite for a solution."""

from learndyn.bibliography import LIBRARIES, of_learndyn, of_reference
from learndyn.core.solution import Solution
from learndyn.core.theory import theories


def cite(solution: Solution) -> str:
    """BibTeX entries of the papers of the theory, of the libraries that it was solved or trained with, and of learndyn.

    A paper without a known entry, such as that of a theory of your own, is a comment.
    """
    evidence = solution.evidence
    libraries = [LIBRARIES[name] for name in ("jax", *_libraries(solution))]
    own = of_learndyn((evidence.versions or {}).get("learndyn"))
    return "\n\n".join([*of_reference(evidence.reference or ""), *libraries, own])


def _libraries(solution: Solution) -> tuple[str, ...]:
    """The packages beside JAX of the method; none if its theory is not installed."""
    kind = (solution.evidence.method or {}).get("kind")
    for theory in theories():
        if theory.name == solution.evidence.theory:
            for method in (*theory.methods, *theory.simulators):
                if method.kind == kind:
                    return method.libraries
    return ()
