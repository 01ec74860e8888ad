"""The loss of an ensemble: the mean of the functions of several networks."""

import xarray as xr

from learndyn.core.solution import Solution
from learndyn.errors import ProblemError, UnknownObservable
from learndyn.families.deep_linear.network import DeepLinear, label_noise
from learndyn.problem.checks import choice, optional, whole


def ensemble_loss(solution: Solution, members: int, shared: str | None = "data") -> xr.DataArray:
    """The test loss of the mean of E = `members` networks: σ² + C_v/E + (1 − 1/E) C_v^ab.

    C_v is the error of one network and C_v^ab the error overlap of two of them, which share the "data" (an ensemble
    over initial weights), the initial "weights" (bagging), or nothing (None: the bias). `solution` must hold it: solve
    with `Rows(ensembles=True)`, or simulate with `Descent(partners=True)`.
    """
    E = whole(1)(members, "members")
    shared = optional(choice("data", "weights"))(shared, "shared")
    network = solution.problem.network
    if not isinstance(network, DeepLinear):
        raise ProblemError("solution", type(network).__name__, "must be of a DeepLinear network")
    name = "bias" if shared is None else f"overlap_same_{shared}"
    if name not in solution:
        advice = "solve with Rows(ensembles=True) or simulate with Descent(partners=True)"
        raise UnknownObservable(f"the solution has no {name}; {advice}")
    floor = network.outputs * label_noise(solution.problem) ** 2
    loss = floor + (solution["test_loss"] - floor) / E + (1 - 1 / E) * solution[name]
    loss.attrs = {"long_name": f"test loss of {E} networks averaged"}
    return loss.rename("ensemble_loss")
