"""A theory of one's own, whole: the network, the limit, the finite network, one registration.

A linear unit f(x) = w·x/√N learns a linear teacher y = w*·x/√N + σξ, |w*|² = N, by online SGD with rate η:

    w ← w + (η/√N) (y − f) x,    one fresh x ~ N(0, 1_N) per step.

As N → ∞ with t = steps/N, the error e = |w − w*|²/N obeys ė = −η(2 − η) e + η²σ², a linear equation.

Run this file, or add it to the command with an entry point (see docs/add-a-theory.md).
"""

from pathlib import Path

import numpy as np

import learndyn as ld
from learndyn.network import Network
from learndyn.numerics.times import resolve_times
from learndyn.part import Part, field, number
from learndyn.core.theory import Curves, Observable, Theory, register


class LinearUnit(Network):
    """One linear unit, which starts at the squared distance |w − w*|²/N = `initial_error` from its teacher."""

    initial_error: float = field(number(above=0), default=1.0)

    def check(self, data, training):
        if not isinstance(data, ld.Stream):
            return  # `solve` then says which data there is a theory for
        if training.time is None:
            raise ld.ProblemError(
                "training.steps", training.steps, "give a time (steps / N) instead"
            )
        number(above=0, below=2)(training.learning_rate, "training.learning_rate")
        if training != ld.GradientDescent(training.learning_rate, time=training.time):
            raise ld.ProblemError(
                "training", training.to_dict(), "only learning_rate and time have a meaning here"
            )
        if data != ld.Stream(ld.Teacher.orthonormal("linear", hidden=1), noise=data.noise):
            raise ld.ProblemError(
                "data", data.to_dict(), "must have batch 1 and a teacher of one linear unit, T = 1"
            )


class ExactFormula(Part):
    """The closed solution."""


class OnlineSGD(Part):
    """The finite unit, trained example by example."""


def observables(error):
    """The names and axes that both the limit and the finite network use."""
    return {"test_loss": Observable(("time",), error / 2, "test loss ½⟨(y − f)²⟩ on clean labels")}


def solve(problem, method, save_at, seed, report):
    """e(t) = (e₀ − e_∞) exp(−η(2 − η)t) + e_∞."""
    times = resolve_times(save_at, problem.training.time)
    eta, sigma = problem.training.learning_rate, problem.data.noise
    rate = eta * (2 - eta)
    floor = eta**2 * sigma**2 / rate
    error = (problem.network.initial_error - floor) * np.exp(-rate * times) + floor
    return Curves(observables(error), times, evidence={"accuracy": {"test_loss": 1e-15}})


def finite(problem, size, method, save_at):
    """A function that trains one unit."""
    eta, sigma = problem.training.learning_rate, problem.data.noise
    steps = np.unique(np.rint(resolve_times(save_at, problem.training.time) * size).astype(int))

    def run(seed, report):
        rng = np.random.default_rng(seed)
        # The gap w* − w; by symmetry its direction does not matter.
        gap = np.full(size, np.sqrt(problem.network.initial_error))
        errors, step = [], 0
        for save in steps:
            while step < save:
                x = rng.standard_normal(size)
                residual = gap @ x / np.sqrt(size) + sigma * rng.standard_normal()
                gap -= eta / np.sqrt(size) * residual * x
                step += 1
            errors.append(gap @ gap / size)
            report(step / steps[-1])
        return Curves(observables(np.array(errors)), steps / size)

    return run


register(
    Theory(
        name="linear_unit/stream",
        network=LinearUnit,
        data=ld.Stream,
        training=ld.GradientDescent,
        summary="closed solution of a linear unit",
        exactness="exact as N → ∞",
        reference="Werfel, Xie & Seung 2005",
        solve=solve,
        finite=finite,
        methods=(ExactFormula,),
        simulators=(OnlineSGD,),
        template=Path(__file__).with_suffix(".toml"),
        demo_size=400,
        demo_seeds=10,
    )
)

if __name__ == "__main__":
    problem = ld.Problem.from_toml(Path(__file__).with_suffix(".toml"))
    theory = ld.solve(problem)
    runs = ld.simulate(problem, size=400, seeds=10)
    print(ld.compare(theory, runs))
