"""Several problems of one shape, one after the other in the same memory: what surrounds a recursion is done once."""

import numpy as np

from learndyn.deep_linear import rows
from learndyn.deep_linear.causal import Causal, pick_form
from learndyn.deep_linear.curves import curves_of, read_off
from learndyn.deep_linear.setting import Setting, setting
from learndyn.divergence import diverged
from learndyn.numerics.times import resolve_steps
from learndyn.theory import Curves
from learndyn.training import impulse_response

SHORT_WORK = 2e7
"""Up to this many (layers + modes) × rows³, about 20 ms, what surrounds the recursion is worth saving."""


def solve_many(problems: list, method: Causal, save_at, seed: int, wanted=None):
    """`solve` for problems that differ in numbers only; None unless all are short row recursions of one shape."""
    saved = resolve_steps(save_at, problems[0].training.steps)
    settings = [setting(problem, method.bins) for problem in problems]
    steps = int(saved[-1])
    if method.ensembles or not all(_short(made, method, steps) for made in settings):
        return None
    if len({len(made.lam) for made in settings}) > 1:
        return None
    found = rows.empty_rows(settings[0], steps)
    rules: dict = {}
    curves: list[Curves] = []
    for problem, made in zip(problems, settings, strict=True):
        training = problem.training
        if id(training) not in rules:
            kappa, d = impulse_response(training, training.steps)
            rules[id(training)] = kappa[: steps + 1, : steps + 1], d[: steps + 1]
        w = rows.weights(made, *rules[id(training)])
        # Every entry on and below a diagonal is written again, and none above one was.
        rows.advance(0, steps + 1, found, w)
        loss = rows.errors(found, w, 0, steps + 1)
        lost = diverged(loss, max(loss[0], 1e-300))
        reached = int(np.argmax(lost)) if lost.any() else steps + 1
        arrays, evidence = read_off(found, w, made, saved, reached, wanted=wanted)
        curves.append(curves_of(problem, "rows", made, saved, reached, arrays, evidence))
    return curves


def _short(made: Setting, method: Causal, steps: int) -> bool:
    n = (steps + 1) * made.outputs
    work = (made.depth + len(made.lam)) * float(n) ** 3
    suits = made.branch is None and not made.grouped and pick_form(method, made, steps) == "rows"
    return suits and work <= SHORT_WORK
