"""`Causal`: the exact limit of a deep linear network, forward in training time, in one of two forms."""

import math

import numpy as np

from learndyn.deep_linear import residual, rows
from learndyn.deep_linear.curves import advance_rows, curves_of, first_steps, read_off
from learndyn.deep_linear.gradient import losses_of
from learndyn.deep_linear.innovation import solve_innovation
from learndyn.deep_linear.node_numbers import by_nodes
from learndyn.deep_linear.setting import POPULATION, STREAM, Setting, setting
from learndyn.errors import NotConverged, NoTheory, ProblemError
from learndyn.memory import require_memory
from learndyn.numerics.times import resolve_steps
from learndyn.part import Part, boolean, choice, field, number, whole
from learndyn.theory import Curves
from learndyn.training import impulse_response, rates

ROWS_WORK = 1.5e9
"""Up to this many (layers + modes) × rows³ the row recursion takes seconds, and it gives the responses too."""
FEWER_BINS = 4
"""A spectrum in fewer bins, by this factor, shows the accuracy of its grouping."""
RUNAWAY = 10.0
"""A loss that has risen to this many times its start is on its way to divergence."""
SMALL_RICHNESS = 1e-2
"""Below it, the innovation basis of a centred network loses digits that the row recursion keeps."""


class Causal(Part):
    """Solve forward in training time, without iteration.

    `form` is "rows" (the row recursion: responses, ensembles and gradients too), "innovation" (the innovation basis:
    long runs) or "auto": rows while they take seconds. `tolerance` is the relative size below which the innovation
    basis drops a new direction. A spectrum of more than `bins` eigenvalues is grouped into so many. `ensembles` adds
    the error overlaps of networks that share the data or the initial weights only.
    """

    form: str = field(choice("auto", "rows", "innovation"), default="auto")
    tolerance: float = field(number(minimum=1e-14, maximum=1e-2), default=1e-10)
    bins: int = field(whole(2), default=64)
    ensembles: bool = field(boolean, default=False)

    def validate(self):
        if self.ensembles and self.form == "innovation":
            raise ProblemError("Causal.ensembles", True, "needs form = 'rows'")


def pick_form(method: Causal, made: Setting, steps: int) -> str:
    """The form that `method` asks for, or the one that suits so many steps."""
    if made.branch is not None and method.ensembles:
        raise ProblemError("Causal.ensembles", True, "is not known for residual networks")
    if method.form != "auto":
        return method.form
    n = (steps + 1) * made.outputs
    lazy = made.centered and made.gamma < SMALL_RICHNESS
    quick = (made.depth + len(made.lam)) * float(n) ** 3 <= ROWS_WORK
    # Fresh noise at every step leaves the innovation basis nothing to compress, and skip connections make one large
    # space of all layers.
    poor_basis = made.data == STREAM or made.branch is not None
    return "rows" if method.ensembles or lazy or quick or poor_basis else "innovation"


def solve(problem, method: Causal, save_at, seed: int, report) -> Curves:
    """All observables at the recorded steps."""
    saved = resolve_steps(save_at, problem.training.steps)
    made = setting(problem, method.bins)
    form = pick_form(method, made, int(saved[-1]))
    solver = _by_rows if form == "rows" else _by_innovation
    if math.isinf(problem.network.depth):
        solver = _infinitely_deep(form)
    few = max(method.bins // FEWER_BINS, 1)
    coarse = setting(problem, few) if made.grouped else None
    share = 1.0 if coarse is None else 0.7
    arrays, reached, evidence = solver(problem, method, made, saved, lambda x: report(share * x))
    kept = saved[saved < reached]
    if coarse is not None and len(kept):
        rough, rough_end, _ = solver(
            problem, method, coarse, kept, lambda x: report(share + (1 - share) * x)
        )
        if rough_end <= kept[-1]:
            if not np.max(arrays["test_loss"]) > RUNAWAY * arrays["test_loss"][0]:
                raise NotConverged(
                    f"training diverges at step {rough_end} with the spectrum in {few} bins, and not in "
                    f"{method.bins}: too few to know the limit; use more bins"
                )
            # Both diverge, one a little earlier.
            reached, count = rough_end, int(np.count_nonzero(kept < rough_end))
            arrays = {name: first_steps(values, count) for name, values in arrays.items()}
            rough = {name: first_steps(values, count) for name, values in rough.items()}
        # The error of grouping modes falls as 1/bins² for a smooth spectrum and as 1/bins for a rough one: it is then
        # about a third of this difference.
        for name, values in rough.items():
            error = float(np.max(np.abs(values - arrays[name]), initial=0.0))
            evidence["accuracy"][name] = evidence["accuracy"].get(name, 0.0) + error
    return curves_of(problem, form, made, saved, reached, arrays, evidence)


def _infinitely_deep(form: str):
    if form == "innovation":
        raise ProblemError(
            "Causal.form", form, "an infinitely deep network is solved in the form 'rows'"
        )
    return by_nodes


def _by_rows(problem, method: Causal, made, saved, report):
    steps = int(saved[-1])
    needed = (2.3 if method.ensembles else 1.3) * rows.memory(made, steps)
    if made.branch is not None:
        needed += residual.memory(made, steps)
    require_memory(
        needed, f"a row recursion of {steps} steps", "use form = 'innovation' or fewer steps"
    )
    kappa, d = impulse_response(problem.training, problem.training.steps)
    w = rows.weights(made, kappa[: steps + 1, : steps + 1], d[: steps + 1])
    found = rows.empty_rows(made, steps)
    blocks = None if made.branch is None else residual.empty_blocks(found)

    def advance(first: int, last: int) -> None:
        if blocks is None:
            rows.advance(first, last, found, w)
        else:
            residual.advance_residual(first, last, found, blocks, w, float(made.branch))

    reached = advance_rows(advance, found, w, steps + 1, report)
    arrays, evidence = read_off(found, w, made, saved, reached, method.ensembles)
    return arrays, reached, evidence


def _by_innovation(problem, method: Causal, made, saved, report):
    steps = int(saved[-1])
    training = problem.training
    eta = np.asarray(rates(training, training.steps))[:steps]
    arrays = solve_innovation(
        made, eta, training.momentum, training.weight_decay, saved, method.tolerance, report
    )
    reached, basis, edge = (arrays.pop(name) for name in ("reached", "basis", "edge"))
    # Measured against the row recursion: 0.02 tolerances in smooth runs, up to 40 at the edge of stability.
    relative = method.tolerance * (1.0 if edge is None else 40.0)
    evidence = {
        "basis": basis,
        "tolerance": method.tolerance,
        "edge_of_stability": edge,
        "accuracy": {
            name: relative * float(np.max(np.abs(x), initial=0.0)) for name, x in arrays.items()
        },
    }
    return arrays, reached + 1, evidence


def trace(problem, method: Causal, save_at) -> dict:
    """Test and train loss at the recorded steps as a JAX function of the training rule."""
    if problem.network.branch is not None:
        raise NoTheory("derivatives are not known for residual networks")
    saved = resolve_steps(save_at, problem.training.steps)
    made = setting(problem, method.bins)
    # A gradient needs the finished matrices and their adjoints.
    needed = 2.5 * rows.memory(made, problem.training.steps)
    require_memory(needed, "the gradient of a row recursion", "use fewer steps")
    test, train = losses_of(made)(*impulse_response(problem.training, problem.training.steps))
    found = {"test_loss": test[saved], "train_loss": train[saved]}
    return {name: found[name] for name in found if name == "test_loss" or made.data != POPULATION}
