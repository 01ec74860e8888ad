"""Solving neural ODEs: which form of the theory suits, and extrapolation to continuous inference time."""

import dataclasses

import equinox as eqx
import numpy as np

from learndyn.errors import ProblemError
from learndyn.neural_ode import correlated, map
from learndyn.neural_ode.observables import (
    coordinates,
    inference_steps,
    observables,
    within_training,
)
from learndyn.neural_ode.setting import flow_of
from learndyn.numerics.richardson import richardson
from learndyn.numerics.times import resolve_steps
from learndyn.part import Part, choice, field, whole
from learndyn.theory import Curves

UNCERTAIN = 0.1
"""An accuracy beyond this share of the largest value is not to be trusted."""


class DynamicalMeanField(Part):
    """The limit d → ∞ of a neural ODE, exact on the Euler grid of the finite system.

    `form` is "map" (a few numbers a training step; for fresh trajectories in a field that depends on the state), or
    "memory" (correlations of all training steps; any data), or "auto": the map where it holds. With `extrapolation` k
    the Euler step is also halved 1 … k times, and the results are extrapolated to continuous time; the evidence states
    the accuracy. At the training steps `inference_steps` correlations and responses along the flow are recorded too.
    """

    form: str = field(choice("auto", "map", "memory"), default="auto")
    extrapolation: int = field(whole(0), default=0)
    inference_steps: tuple = field(inference_steps, default=())


def solve(problem, method: DynamicalMeanField, save_at, seed: int, report) -> Curves:
    """All observables at the recorded training steps."""
    within_training(method, problem)
    saved = resolve_steps(save_at, problem.training.steps)
    form = chosen_form(problem, method)
    levels = method.extrapolation + 1
    shares = 8.0 ** np.arange(levels)
    shares = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
    found = []
    for level in range(levels):
        a, b = shares[level], shares[level + 1]
        finer = refined(problem, 2**level)
        one = _one_grid(finer, method, form, saved, lambda x, a=a, b=b: report(a + (b - a) * x))
        found.append(_coarse(one, 2**level))
    return _curves(problem, method, form, saved, found)


def solve_many(problems: list, method: DynamicalMeanField, save_at, seed: int, wanted=None):
    """`solve` for problems that differ in numbers only, by the map; None where it is not the map alone."""
    forms = {chosen_form(problem, method) for problem in problems}
    if forms != {"map"} or method.extrapolation or method.inference_steps:
        return None
    saved = resolve_steps(save_at, problems[0].training.steps)
    found = map.curves_of(problems, saved, lambda done: None)
    return [
        _curves(problem, method, "map", saved, [arrays])
        for problem, arrays in zip(problems, found, strict=True)
    ]


def _curves(problem, method: DynamicalMeanField, form: str, saved, found: list[dict]) -> Curves:
    """The curves from arrays on Euler grids, each twice as fine as the one before."""
    count = min(len(one["Q"]) for one in found)
    arrays, accuracy = {}, {}
    for name in found[0]:
        limit = richardson([_reached(name, one[name], count) for one in found])
        arrays[name] = limit.values
        if method.extrapolation:
            accuracy[name] = float(np.max(limit.error, initial=0.0))
    kept = saved[:count]
    looked = tuple(a for a in method.inference_steps if count == len(saved) or a < saved[count])
    evidence = {"size_symbol": "d", "form": form}
    if method.extrapolation:
        evidence |= {
            "accuracy": accuracy,
            "finest_steps": problem.network.steps * 2**method.extrapolation,
        } | _warnings(arrays, accuracy)
    return Curves(
        observables(arrays),
        kept,
        axis="step",
        coordinates=coordinates(problem.network, kept, looked if "C_yy" in arrays else ()),
        diverged_at=float(saved[count]) if count < len(saved) else None,
        evidence=evidence,
    )


def _warnings(arrays: dict, accuracy: dict) -> dict:
    """What to say where extrapolation still changes an observable much: then its accuracy is no bound."""
    uncertain = [
        name
        for name, error in accuracy.items()
        if error > UNCERTAIN * np.max(np.abs(arrays[name]), initial=0.0)
    ]
    if not uncertain:
        return {}
    text = (
        f"the last extrapolation changes {', '.join(uncertain)} by more than a tenth: the Euler steps are too long to "
        "know the accuracy; use more steps, or a larger extrapolation"
    )
    return {"warnings": [text]}


def trace(problem, method: DynamicalMeanField, save_at) -> dict:
    """Q, m, C_θ and test_loss as JAX arrays; for the map only."""
    if chosen_form(problem, method) != "map" or method.extrapolation:
        allowed = "must be 'map', without extrapolation, to be traced"
        raise ProblemError("DynamicalMeanField.form", method.form, allowed)
    return map.traced_curves(problem, resolve_steps(save_at, problem.training.steps))


def chosen_form(problem, method: DynamicalMeanField) -> str:
    """The form that "auto" means; `ProblemError` where the map does not hold."""
    needed = problem.network.correlated(problem.data)
    if method.form == "auto":
        return "memory" if needed else "map"
    if method.form == "map" and needed:
        allowed = (
            "must be 'memory' or 'auto' here: training steps are correlated by reused or chained trajectories, or by a "
            "part of the field that does not depend on the state (G(0, m) ≠ 0)"
        )
        raise ProblemError("DynamicalMeanField.form", "map", allowed)
    return method.form


def parallel(problem, method: DynamicalMeanField) -> str:
    """The map is one compiled call; the process of correlated steps is led by Python."""
    return "threads" if chosen_form(problem, method) == "map" else "processes"


def refined(problem, factor: int):
    """The problem with Euler steps `factor` times shorter."""
    if factor == 1:
        return problem
    network = dataclasses.replace(problem.network, steps=problem.network.steps * factor)
    return dataclasses.replace(problem, network=network)


def _one_grid(problem, method: DynamicalMeanField, form: str, saved, report) -> dict:
    """All arrays on the problem's own Euler grid, as far as training goes."""
    wanted = method.inference_steps
    if form == "memory":
        found, within = correlated.curves(problem, saved, report, wanted)
        return found | within
    every = np.union1d(saved, np.asarray(wanted, dtype=int)) if wanted else saved
    found = map.curves(problem, every, report)
    reached = every[: len(found["Q"])]
    where = np.flatnonzero(np.isin(reached, saved))
    looked = [
        _inside(problem, found, i, int(reached[i]))
        for i in np.flatnonzero(np.isin(reached, wanted)).tolist()
    ]
    kept = {name: values[where] for name, values in found.items() if name != "C_theta"}
    C = np.take(found["C_theta"], where, axis=0)
    kept["C_theta"] = np.take(C, where, axis=1 if C.ndim == 2 else 2)
    if looked:
        kept |= {name: np.stack([one[name] for one in looked]) for name in looked[0]}
    return kept


def _inside(problem, found: dict, i: int, step: int) -> dict:
    """Correlations and responses within the recorded training step number i."""
    network = problem.network
    flow = flow_of(network, problem.data)
    now = step % len(flow.observed)
    flow = eqx.tree_at(lambda f: f.observed, flow, flow.observed[now : now + 1])
    if network.one_unit:
        return map.inference(flow, np.ones(1), found["Q"][i, None, None], found["m"][i, None, None])
    return map.inference(flow, found["a"][i], found["Q"][i], found["m"][i])


def _coarse(arrays: dict, factor: int) -> dict:
    """Arrays along the flow at the points of the coarsest grid."""
    along = {name for name in arrays if name[:2] in ("C_", "R_") and name != "C_theta"}
    return {name: x[:, ::factor, ::factor] if name in along else x for name, x in arrays.items()}


def _reached(name: str, values, count: int):
    """The first `count` recorded steps."""
    if name == "C_theta":
        return values[:count, :count] if values.ndim == 2 else values[:count, :, :count]
    return values[:count] if name in ("Q", "m", "a", "train_loss", "test_loss") else values
