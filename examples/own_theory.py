"""A theory of one's own, whole: the network, the limit, the finite network, one registration.

A linear unit f(x) = w·x/√N learns a linear teacher y = w*·x/√N + σξ, |w*|² = N, by online SGD with rate η:

    w ← w + (η/√N) (y − f) x,    one fresh x ~ N(0, 1_N) per step.

As N → ∞ with t = steps/N, the error e = |w − w*|²/N obeys ė = −η(2 − η) e + η²σ², a linear equation.

Run this file, or add it to the command with an entry point (see docs/add-a-theory.md).
"""

from pathlib import Path

import numpy as np

import learndyn as ld
from learndyn.core.curves import Curves, Quantity
from learndyn.core.method import Ensemble, Method, Simulator
from learndyn.core.progressing import Trainee
from learndyn.problem.checks import number
from learndyn.problem.network import Network
from learndyn.problem.part import field

TABLE = (Quantity("test_loss", ("step",), "test loss ½⟨(y − f)²⟩ on clean labels"),)


class LinearUnit(Network):
    """One linear unit, which starts at the squared distance |w − w*|²/N = `initial_error` from its teacher."""

    initial_error: float = field(number(above=0), default=1.0)


class ExactFormula(Method):
    """The closed solution e(t) = (e₀ − e_∞) exp(−η(2 − η)t) + e_∞."""

    def solve(self, problem, record, seed, report):
        eta, sigma = problem.training.learning_rate, problem.data.noise
        rate = eta * (2 - eta)
        floor = eta**2 * sigma**2 / rate
        error = (problem.network.initial_error - floor) * np.exp(-rate * record.at) + floor
        return Curves(TABLE, record, {"test_loss": error / 2}).told(accuracy={"test_loss": 1e-15})


class Unit(Trainee):
    """One finite unit in training."""

    def __init__(self, problem, size, seed, expected):
        super().__init__(expected)
        self.eta, self.sigma = problem.training.learning_rate, problem.data.noise
        self.rng, self.steps = np.random.default_rng(seed), 0
        # The gap w* − w; by symmetry its direction does not matter.
        self.gap = np.full(size, np.sqrt(problem.network.initial_error))

    def move(self, until, report):
        N = len(self.gap)
        while self.steps < round(until * N):
            x = self.rng.standard_normal(N)
            residual = self.gap @ x / np.sqrt(N) + self.sigma * self.rng.standard_normal()
            self.gap -= self.eta / np.sqrt(N) * residual * x
            self.steps += 1
            report(self.steps / N)

    def measure(self):
        return {"test_loss": self.gap @ self.gap / len(self.gap) / 2}


class OnlineSGD(Simulator):
    """The finite unit, trained example by example."""

    def ensemble(self, problem, size, record):
        record = record.on_whole_steps(size)
        return Ensemble(
            draw=lambda seed: Unit(problem, size, seed, len(record)),
            record=record,
            bytes=8.0 * 3 * size,
            what=f"training units of size {size}",
            advice="use a smaller size",
        )


@ld.register
class LinearUnitOnStream(ld.Theory):
    """What belongs together."""

    name = "linear_unit/stream"
    network = LinearUnit
    task = ld.Teacher
    supply = ld.Stream
    training = ld.GradientDescent
    understands = ("network", "data.noise", "data.task", "training.time")
    summary = "closed solution of a linear unit"
    exactness = "exact as N → ∞"
    reference = "Werfel, Xie & Seung 2005"
    table = TABLE
    methods = (ExactFormula,)
    simulators = (OnlineSGD,)
    template = Path(__file__).with_suffix(".toml")
    demo_size = 400
    demo_seeds = 10

    def check(self, problem):
        number(above=0, below=2)(problem.training.learning_rate, "training.learning_rate")
        if problem.task != ld.Teacher.orthonormal("linear", hidden=1):
            raise ld.ProblemError("data.task", problem.task, "must be one linear unit with T = 1")


if __name__ == "__main__":
    problem = ld.Problem.from_toml(Path(__file__).with_suffix(".toml"))
    theory = ld.solve(problem)
    runs = ld.simulate(problem, size=400, seeds=10)
    print(ld.compare(theory, runs))
