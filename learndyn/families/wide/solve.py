"""The methods for wide networks: the full theory in four forms, and its approximations."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import stdtrit

from learndyn.core.batches import power_of_two, pseudovalues
from learndyn.core.curves import Curves, of_batches
from learndyn.core.method import Method, Way
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import NoTheory, ProblemError
from learndyn.families.wide.descent import WideProgram, descent
from learndyn.families.wide.equations.alternating import alternate
from learndyn.families.wide.equations.approximations import (
    GRIDS,
    gradient_independent_linear,
    initial_kernels,
    on_grid,
    perturbative_linear,
    plain_rates,
    static_kernel,
)
from learndyn.families.wide.equations.innovation import solve_innovation
from learndyn.families.wide.equations.linear import (
    LinearSolution,
    LinearSweep,
    linear_memory,
    solve_linear,
)
from learndyn.families.wide.equations.particles import TrainingRule, move
from learndyn.families.wide.equations.sampled import SampledSweep, sweep
from learndyn.families.wide.gradient_flow import flow
from learndyn.families.wide.kernel_observables import is_linear, of_linear_units, with_summaries
from learndyn.families.wide.observables import TABLE, losses
from learndyn.families.wide.problem_arrays import WideSetting, wide_setting
from learndyn.memory import require_memory
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.gram import gram
from learndyn.numerics.rules import quasi_random_rule
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.activations import Activation, Relu
from learndyn.problem.checks import choice, number, optional, whole
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.weight_response import rates
from learndyn.programs import Limit
from learndyn.programs.backends import Backend
from learndyn.sampling.batches import Setting
from learndyn.sampling.method import SampledMethod

ROWS_WORK = 3e9
"""Up to this value of L·C·points²·states³ the row recursion takes seconds, and it gives the responses too."""
SMOOTH_DROP, RELU_DROP, LINEAR_DROP = 3e-3, 3e-2, 1e-5
"""Parts of vectors that weight matrices leave out: predictions then change by less than the usual errors."""
INNOVATION = 1e-10
"""The innovation basis drops a new direction below this share of a vector."""
STEIN_SHARE = 0.25
"""Stein responses to more directions than this share of the samples have a bias that half the samples do not show.

Two relu layers, eight points, 30 steps: the last loss is 42 ± 4 % off at a share of 0.48, 3 ± 3 % and, in another run,
9 ± 4 % at 0.24.
"""
OTHER_SEED = 10**9
"""Added to the seed for the samples that show a bias, so that they differ from those of other seeds."""
PREACTIVATIONS = 512
"""The largest number of samples of the preactivations in a solution."""


def layers_of(setting: WideSetting) -> dict[str, np.ndarray]:
    """The labels of the layers."""
    return {"layer": np.arange(1, setting.depth + 1)}


class WideMethod(Method, abstract=True):
    """Base of the methods for wide networks.

    - `tolerance`: accuracy of gradient flow, relative to the largest prediction or loss. 1e-3 unless given.
    """

    tolerance: float = field(number(above=0), default=1e-3)

    @abc.abstractmethod
    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """All observables of gradient descent at the recorded steps."""

    def costly(self, problem: Problem) -> bool:
        """Whether the cost grows as the third power of the steps."""
        return False

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_plain(self, problem)
        if record.axis == "step":
            return self.descent(problem, record, seed, report)

        def descend(stepped: Problem, steps: Record, advance: Report) -> Curves:
            return self.descent(stepped, steps, seed, advance)

        return flow(problem, record, self.tolerance, report, descend, self.costly(problem))

    def way(self, problem: Problem) -> Way:
        """In processes, because Python leads the computation."""
        return "processes"


def _with_losses(
    problem: Problem, setting: WideSetting, arrays: dict, saved: np.ndarray
) -> dict[str, np.ndarray]:
    """The arrays with predictions and losses at the saved states instead of the outputs f at all states."""
    outputs = arrays.pop("f")[saved]
    return arrays | losses(setting.loss, outputs, problem.data.test_targets)


def _need_plain(method: WideMethod, problem: Problem) -> None:
    """Refuse options that only sampled layers have."""
    if not problem.network.plain:
        raise NoTheory(
            f"{type(method).__name__} is for networks without convolution, skips and norm that are trained by backprop; "
            "use SampledLayers"
        )


def _need_linear(method: WideMethod, problem: Problem) -> None:
    """Refuse activations that are not linear."""
    if not is_linear(problem.network.activation):
        others = "Particles" if problem.network.depth == 1 else "SampledLayers"
        allowed = f"is for linear activations only; use {others}"
        raise ProblemError("method", type(method).__name__, allowed)


class LinearRows(WideMethod):
    """Linear networks of any depth, exactly, by the row recursion; with responses."""

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_linear(self, problem)
        setting = wide_setting(problem, int(record.last))
        require_memory(
            linear_memory(setting), f"{setting.states - 1} steps", "use fewer points or steps"
        )
        return curves_of_rows(problem, setting, record, solve_linear(setting, report))

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        _need_plain(self, problem)
        _need_linear(self, problem)
        if problem.training.time is not None:
            return super().start(problem, seed)
        setting = wide_setting(problem, problem.training.steps)
        require_memory(
            linear_memory(setting), f"{setting.states - 1} steps", "use fewer points or steps"
        )
        return LinearTraining(problem, setting)


def curves_of_rows(
    problem: Problem, setting: WideSetting, record: Record, solution: LinearSolution
) -> Curves:
    """The curves of a row recursion."""
    saved = record.at[record.at < solution.reached]
    arrays = {"f": solution.f} | of_rows(setting, solution, saved)
    arrays = _with_losses(problem, setting, arrays, saved)
    evidence = {"solver": "exact, linear units"}
    return Curves(TABLE, record, arrays, len(saved), labels=layers_of(setting), evidence=evidence)


def of_rows(
    setting: WideSetting, solution: LinearSolution, saved: np.ndarray
) -> dict[str, np.ndarray]:
    """Kernels and responses of a row recursion at the saved steps."""

    def at(array: np.ndarray | None) -> np.ndarray:
        assert array is not None, "two-time arrays need a solution with memory"
        return array[:, saved][:, :, :, saved]

    arrays = of_linear_units(setting, at(solution.H), at(solution.G))
    if solution.A is not None and solution.B is not None:
        # Linear units have the same gradient on every point, and only the sum of the responses to all is defined.
        p = setting.points
        arrays["A"] = np.repeat(at(solution.A)[:, :, :, :, None] / p, p, axis=4)
        arrays["B"] = np.repeat(at(solution.B)[:, :, None], p, axis=2)
    return arrays


class LinearTraining(Progressing):
    """The row recursion of a linear network, advanced step by step."""

    now: int = 0

    def __init__(self, problem: Problem, setting: WideSetting):
        self.problem, self.setting, self.rows = problem, setting, LinearSweep(setting)
        self.recorded: list[int] = []

    def labels(self) -> dict[str, np.ndarray]:
        return layers_of(self.setting)

    def advance(self, states: Sequence[float] | np.ndarray, report: Report) -> int:
        states = np.asarray(states)
        self.rows.advance(int(states[-1]) + 1, report)
        reached = states[states < self.rows.reached].tolist()
        self.recorded += reached
        self.now = reached[-1] if reached else self.now
        return len(reached)

    def arrays(self) -> dict[str, np.ndarray]:
        return self._at(np.array(self.recorded, dtype=int))

    def observe(self) -> dict[str, np.ndarray]:
        present = self._at(np.array([self.now]))
        # The movement is measured from the start, which is not among these states.
        movement = self._at(np.array([0, self.now]))["movement"]
        return present | {"movement": movement[:, 1:]}

    def _at(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """The observables at `states`."""
        solution = self.rows.solution()
        arrays = {"f": solution.f} | of_rows(self.setting, solution, states)
        return _with_losses(self.problem, self.setting, arrays, states)

    def after(self) -> float:
        return self.now + 1


class LinearInnovation(WideMethod):
    """Linear networks over long runs, exactly, by the innovation basis; without responses."""

    libraries = ("numba",)

    def start(self, problem: Problem, seed: int = 0) -> Progressing:
        if problem.training.time is not None:
            return super().start(problem, seed)
        raise NoTheory(
            "LinearInnovation solves the whole of training at once; use solve, or LinearRows to advance step by step"
        )

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the basis stays small: without Langevin noise, and without biases in several layers."""
        network = problem.network
        return not problem.training.noise and not (network.bias and network.depth > 1)

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_linear(self, problem)
        if not self.suits(problem):
            allowed = "must be LinearRows with Langevin noise, or with biases in several layers"
            raise ProblemError("method", "LinearInnovation", allowed)
        setting, training = wide_setting(problem, int(record.last)), problem.training
        eta = np.asarray(rates(training, training.steps), dtype=float)
        solution = solve_innovation(
            setting,
            eta,
            training.momentum,
            training.weight_decay,
            record.at,
            INNOVATION,
            report,
        )
        saved = record.at[record.at < solution.reached]
        arrays = {"f": solution.f} | of_linear_units(setting, solution.Phi, solution.G)
        arrays = _with_losses(problem, setting, arrays, saved)
        evidence = {"solver": "innovation basis, linear units", "basis": solution.basis}
        return Curves(
            TABLE, record, arrays, len(saved), labels=layers_of(setting), evidence=evidence
        )


class InBatches(WideMethod, abstract=True):
    """Base of the methods that sample neurons: the mean over independent batches; their spread is the standard error.

    - `samples`: neurons of each layer in a batch, a power of two. 1024 unless given.
    - `batches`: independent batches, at least two. 8 unless given.
    """

    samples: int = field(power_of_two, default=1024)
    batches: int = field(whole(2), default=8)

    @abc.abstractmethod
    def batch(
        self, problem: Problem, setting: WideSetting, saved: np.ndarray
    ) -> tuple[Callable, dict]:
        """A function that solves one batch, `run(seed, report) -> (arrays, states reached)`, and its evidence.

        The arrays hold the observables, and the outputs `f` at all states.
        """

    def way(self, problem: Problem) -> Way:
        """One problem at a time, because batches use all cores."""
        return "alone"

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting, saved = wide_setting(problem, int(record.last)), record.at
        run, evidence = self.batch(problem, setting, saved)
        seeds = np.random.SeedSequence(seed).spawn(self.batches)

        def solve_batch(index: int, advance: Report) -> tuple[Curves, np.ndarray, np.ndarray]:
            arrays, reached = run(seeds[index], advance)
            f, samples = arrays.pop("f"), arrays.pop("preactivation")
            count = int(np.count_nonzero(saved < reached))
            return Curves(TABLE, record, arrays, count, labels=layers_of(setting)), f, samples

        solved = dict(in_threads(solve_batch, range(self.batches), report))
        in_order = (solved[index] for index in sorted(solved))
        batch_curves, outputs, samples = zip(*in_order, strict=True)
        count = min(curves.count for curves in batch_curves)
        cut = [curves.cut(count) for curves in batch_curves]
        batches = {name: np.stack([curves[name] for curves in cut]) for name in cut[0].arrays}
        # The loss of a batch is too high by half the variance of its outputs; pseudovalues remove that bias.
        outputs = np.stack([f[saved[:count]] for f in outputs])
        test_targets = problem.data.test_targets
        batches |= pseudovalues(lambda f: losses(setting.loss, f, test_targets), outputs)
        evidence |= {"samples": self.samples, "batches": self.batches}
        curves = of_batches(cut[0], batches, count, evidence)
        # Preactivations are samples of one batch, and have no mean.
        arrays = curves.arrays | {"preactivation": samples[0]}
        return dataclasses.replace(curves, arrays=arrays)


class Particles(InBatches):
    """One hidden layer: every neuron is a particle that moves on its own, from quasi-random starts."""

    def batch(
        self, problem: Problem, setting: WideSetting, saved: np.ndarray
    ) -> tuple[Callable, dict]:
        if setting.depth != 1:
            other = "LinearRows" if is_linear(setting.activation) else "SampledLayers"
            allowed = f"is for one hidden layer; use {other}"
            raise ProblemError("method", "Particles", allowed)
        training, steps = problem.training, setting.states - 1
        eta = np.asarray(rates(training, training.steps), dtype=float)[:steps]
        rule = TrainingRule(eta, training.momentum, training.weight_decay, training.noise)
        dimensions = covariance_root(setting.K + setting.bias, rank=True).shape[1] + setting.outputs
        if self.samples < 4 * dimensions:
            allowed = f"must be at least {4 * dimensions}, for particles in {dimensions} dimensions"
            raise ProblemError("Particles.samples", self.samples, allowed)
        needed = 8.0 * 2 * self.samples * setting.points * (len(saved) * (2 + setting.outputs) + 12)
        purpose = f"{steps} steps of particles"
        require_memory(workers(self.batches) * needed, purpose, "use fewer samples")

        def run(seed: np.random.SeedSequence, advance: Report) -> tuple[dict[str, np.ndarray], int]:
            entropy = int(seed.generate_state(1)[0])
            quadrature = quasi_random_rule(dimensions, self.samples, 1, entropy).replicate(0)
            rng = np.random.default_rng(seed)
            particles = move(setting, rule, quadrature, saved, rng, advance)
            n, p, C = len(particles.phi), setting.points, setting.outputs
            weights = particles.weights
            Phi = gram(particles.phi.reshape(n, p, len(weights)), weights=weights)[None]
            G = gram(particles.g.reshape(n, p, C, len(weights)), weights=weights)[None]
            h = particles.h.reshape(1, n, p, len(weights))[..., :PREACTIVATIONS]
            arrays = {"f": particles.f, "preactivation": h} | with_summaries(setting, Phi, G)
            return arrays, particles.reached

        return run, {"solver": "particles, quasi-random"}


class OfLayers(InBatches, abstract=True):
    """Base of the methods that sample the processes of all layers; the cost grows as the third power of the steps."""

    def costly(self, problem: Problem) -> bool:
        return True

    def uses_stein(self, problem: Problem) -> bool:
        """Whether responses come from integration by parts."""
        return False

    @property
    @abc.abstractmethod
    def responded(self) -> str:
        """The method of responses that do not come from integration by parts, for the evidence."""

    @abc.abstractmethod
    def sampled(
        self, setting: WideSetting, seed: np.random.SeedSequence, report: Report, stein: bool
    ) -> SampledSweep:
        """One batch of all layers."""

    def batch(
        self, problem: Problem, setting: WideSetting, saved: np.ndarray
    ) -> tuple[Callable, dict]:
        stein = self.uses_stein(problem)
        n, p, C, L = setting.states, setting.points, setting.outputs, setting.depth
        rows = float(n * p)
        needed = 8.0 * L * (self.samples * rows * (5 + 3 * C) + rows**2 * (2 + 4 * C + C * C))
        purpose = f"{n - 1} steps of {p} points"
        require_memory(workers(self.batches) * needed, purpose, "use fewer samples or steps")

        def run(seed: np.random.SeedSequence, advance: Report) -> tuple[dict[str, np.ndarray], int]:
            f, layers, reached = self.sampled(setting, seed, advance, stein)
            states = saved[saved < reached]
            Phi = np.stack([layer.Phi[states][:, :, states] for layer in layers])
            G = np.stack([layer.G[states][:, :, :, states] for layer in layers])
            shape = (L, len(states), p, min(self.samples, PREACTIVATIONS))
            samples = [[layer.h[t][:, :PREACTIVATIONS] for t in states] for layer in layers]
            arrays = {
                "f": f,
                "A": np.stack([layer.A[states][:, :, states] for layer in layers]),
                "B": np.stack([layer.B[states][:, :, :, states] for layer in layers]),
                "preactivation": np.reshape(samples, shape),
            }
            return arrays | with_summaries(setting, Phi, G), reached

        responses = "stein" if stein else self.responded
        return run, {"solver": "sampled layers", "responses": responses}


class WithResponses(OfLayers, abstract=True):
    """Base of the methods with responses.

    - `responses`: "adjoint" traces changes back through every sample, "stein" integrates by parts, which a relu needs;
      "auto" (unless given) is "stein" for a relu and "adjoint" otherwise.
    - `precision`: that of the tracing, which is most of the cost; "single" (unless given) or "double". The rounding of
      "single" is far below the standard errors. All else is in double precision.
    """

    responses: str = field(choice("auto", "adjoint", "stein"), default="auto")
    precision: str = field(choice("single", "double"), default="single")

    @property
    def responded(self) -> str:
        return f"adjoint, {self.precision} precision"

    def uses_stein(self, problem: Problem) -> bool:
        relu = isinstance(problem.network.activation, Relu)
        return self.responses == "stein" or (self.responses == "auto" and relu)

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """With Stein responses, a second solve with half the samples shows their bias, the stated accuracy."""
        if not self.uses_stein(problem):
            return super().descent(problem, record, seed, report)
        _check_stein(self, wide_setting(problem, int(record.last)))
        full = super().descent(problem, record, seed, lambda x: report(0.6 * x))
        half_method = dataclasses.replace(self, samples=self.samples // 2)
        # The samples differ, so that the two solves do not share their noise.
        half = InBatches.descent(
            half_method, problem, record, seed + OTHER_SEED, lambda x: report(0.6 + 0.4 * x)
        )
        # Single entries of A and B are noise, and the preactivations are single samples.
        judged = [name for name in full.arrays if name not in ("A", "B", "preactivation")]
        return full.told(accuracy=full.restricted(judged).differences(half))


class SampledLayers(SampledMethod):
    """Networks of any depth: the neurons of all layers, sampled, with weights revealed as far as they are asked.

    The mean over independent batches is the result, and their spread gives its standard error. With a `tolerance`, a
    pilot finds out how many samples that takes, and more are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1. Not given:
      a number of samples is run.
    - `samples`: neurons of each layer in a batch, a power of two. Not given: 2048, or five for each direction that the
      weights of a layer are asked; with a tolerance, as many as it takes.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    - `drop`: a weight matrix leaves out what is shorter than this part of a vector. Not given: 3e-3, and 3e-2 for a
      relu.
    """

    drop: float | None = field(optional(number(minimum=0, below=0.1)), default=None)

    def setting(self, problem: Problem, record: Record, seed: int) -> Setting:
        setting = wide_setting(problem, 1)
        drop = _drop_of(problem.network.activation) if self.drop is None else self.drop

        def begin(backend: Backend, record: Record | None) -> WideProgram:
            loop = functools.partial(descent, problem=problem, setting=setting)
            return WideProgram(loop, backend, record, problem, setting)

        return Setting(
            Limit(drop=drop, single=self.precision == "single"),
            begin,
            TABLE,
            record,
            seed,
            labels=layers_of(setting),
            combined=lambda batches: with_unbiased_losses(problem, setting, batches),
            aside=("preactivation",),
            doubtful=("movement",),
        )

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        return super().solve(problem, record, seed, report).told(solver="sampled layers")


def _drop_of(activation: Activation) -> float:
    """What weight matrices leave out unless the user says so."""
    if is_linear(activation):
        return LINEAR_DROP
    return RELU_DROP if isinstance(activation, Relu) else SMOOTH_DROP


def with_unbiased_losses(
    problem: Problem, setting: WideSetting, batches: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The batches with pseudo-values of losses: the loss of a batch is too high by half the variance of its outputs."""
    f = np.concatenate(
        [batches[name] for name in ("prediction", "test_prediction") if name in batches], axis=2
    )
    test_targets = problem.data.test_targets
    return batches | pseudovalues(lambda mean: losses(setting.loss, mean, test_targets), f)


def _check_stein(method: InBatches, setting: WideSetting) -> None:
    """Refuse Stein responses with a bias that would not show, and say how many samples are enough."""
    directions = setting.states * setting.points * setting.outputs
    if directions <= STEIN_SHARE * method.samples:
        return
    enough = 2 ** math.ceil(math.log2(directions / STEIN_SHARE))
    counts = f"{setting.states} states of {setting.points} points"
    if setting.outputs > 1:
        counts += f" and {setting.outputs} outputs"
    allowed = f"must be at least {enough} for {counts}: with fewer, responses by integration by parts are biased"
    if not isinstance(setting.activation, Relu):
        allowed += "; or use responses = 'adjoint'"
    raise ProblemError(f"{type(method).__name__}.samples", method.samples, allowed)


class AlternatingIteration(WithResponses):
    """The paper's algorithm: iterate whole trajectories, new = (1 − `damping`) old + `damping` sampled.

    Outputs follow the tangent kernel; plain gradient descent only.

    - `damping`: the part of the way to the sampled result, above 0 and at most 1. 0.5 unless given.
    - `change`: the largest change of an output at which the iteration has converged. 1e-4 unless given.
    - `iterations`: the number of iterations after which it fails. 100 unless given.
    """

    damping: float = field(number(above=0, maximum=1), default=0.5)
    change: float = field(number(above=0), default=1e-4)
    iterations: int = field(whole(1), default=100)

    def sampled(
        self, setting: WideSetting, seed: np.random.SeedSequence, report: Report, stein: bool
    ) -> SampledSweep:
        plain_rates(setting, type(self).__name__)
        return alternate(
            setting,
            self.samples,
            seed,
            report,
            stein,
            self.damping,
            self.change,
            self.iterations,
            self.precision,
        )


class GradientIndependence(OfLayers):
    """No responses (A = B = 0): the backward pass as if through weights of its own. Exact for one hidden layer.

    Outputs follow the tangent kernel of the fields, f(t+1) = f(t) + ηK(t, t)E(t); plain gradient descent only. Linear
    networks need no samples.
    """

    @property
    def responded(self) -> str:
        return "none"

    def costly(self, problem: Problem) -> bool:
        return not is_linear(problem.network.activation)

    def way(self, problem: Problem) -> Way:
        return "alone" if self.costly(problem) else "processes"

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting = wide_setting(problem, int(record.last))
        plain_rates(setting, type(self).__name__)
        if self.costly(problem):
            return super().descent(problem, record, seed, report)
        require_memory(
            linear_memory(setting), f"{setting.states - 1} steps", "use fewer points or steps"
        )
        return curves_of_rows(
            problem, setting, record, gradient_independent_linear(setting, report)
        )

    def sampled(
        self, setting: WideSetting, seed: np.random.SeedSequence, report: Report, stein: bool
    ) -> SampledSweep:
        return sweep(setting, self.samples, seed, report, stein, True, "single")


class StaticKernel(WideMethod):
    """The lazy limit γ_0 → 0: outputs follow the tangent kernel of the start, f(t+1) = f(t) + ηK(0)E(t)."""

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting, saved = wide_setting(problem, int(record.last)), record.at
        arrays = _with_losses(problem, setting, _static(setting, saved), saved)
        curves = Curves(TABLE, record, arrays, labels=layers_of(setting))
        curves = curves.told(solver="static kernel")
        if not on_grid(setting):
            return curves
        # The spread of the grids gives the error of their mean if their errors are independent, as they are at a kink.
        by_grid = [
            _with_losses(problem, setting, _static(setting, saved, slice(r, r + 1)), saved)
            for r in range(GRIDS)
        ]
        factor = float(stdtrit(GRIDS - 1, 0.975))
        errors = {name: mean_and_error([grid[name] for grid in by_grid])[1] for name in arrays}
        return curves.told(
            accuracy={n: factor * float(np.max(x, initial=0.0)) for n, x in errors.items()}
        )


def _static(
    setting: WideSetting, saved: np.ndarray, grids: slice = slice(None)
) -> dict[str, np.ndarray]:
    """All observables of a kernel that keeps its initial value."""
    start, n, C = initial_kernels(setting, grids), len(saved), setting.outputs
    Phi = np.broadcast_to(
        start.Phi[1:, None, :, None], (setting.depth, n, setting.points, n, setting.points)
    )
    G = np.einsum("lma,cd,t,s->ltmcsad", start.G[:-1], np.eye(C), np.ones(n), np.ones(n))
    return {"f": static_kernel(setting, start.kernel)} | with_summaries(setting, Phi, G)


class Perturbative(WideMethod):
    """Deep linear networks to the leading order γ_0² in which features move; plain gradient descent only."""

    def descent(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        setting, saved = wide_setting(problem, int(record.last)), record.at
        if not is_linear(setting.activation):
            raise NoTheory(
                "perturbation theory is known only for linear activations; use StaticKernel"
            )
        expansion = perturbative_linear(setting)
        H, G = (expansion[name][:, saved][:, :, :, saved] for name in ("H", "G"))
        arrays = {"f": expansion["f"]} | of_linear_units(setting, H, G)
        # To the order γ_0²; the product of corrected kernels would contain higher orders.
        arrays["kernel"] = expansion["kernel"][saved]
        arrays = _with_losses(problem, setting, arrays, saved)
        evidence = {"solver": "leading order in γ_0²"}
        return Curves(TABLE, record, arrays, labels=layers_of(setting), evidence=evidence)


def automatic(problem: Problem, record: Record) -> WideMethod:
    """The full theory: exact for linear networks, by particles for one hidden layer, else by sampled layers."""
    network, data = problem.network, problem.data
    if not network.plain:
        return SampledLayers()
    if not is_linear(network.activation):
        return Particles() if network.depth == 1 else SampledLayers()
    if not LinearInnovation.suits(problem):
        return LinearRows()
    work = network.depth * data.outputs * float(data.total) ** 2 * float(record.last + 1) ** 3
    # Gradient flow takes many small steps, and has no responses.
    return LinearInnovation() if record.axis == "time" or work > ROWS_WORK else LinearRows()
