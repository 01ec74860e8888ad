"""The methods for wide networks: the full theory in three forms, and its approximations."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psutil
import threadpoolctl
from scipy.special import stdtrit

from learndyn.core.batches import pseudovalues
from learndyn.core.curves import Curves, of_batches
from learndyn.core.method import Method, Way
from learndyn.core.panel_control import MOST_MOMENTUM, solve_in_panels
from learndyn.core.panels import MOST_EDGES, Course
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.errors import NoTheory, ProblemError
from learndyn.families.wide.descent import (
    WideProgram,
    gradient_independent_loop,
    training_loop,
)
from learndyn.families.wide.equations.approximations import (
    GRIDS,
    InitialKernels,
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
from learndyn.families.wide.equations.series import second_order
from learndyn.families.wide.equations.static import refuse_moving_weights, static_outputs
from learndyn.families.wide.gradient_flow import (
    FIRST_STEP,
    MOST_STEPS,
    first_step,
    in_steps_or_time,
    refuse_steps,
)
from learndyn.families.wide.kernel_observables import is_linear, of_linear_units, with_summaries
from learndyn.families.wide.observables import TABLE, losses
from learndyn.families.wide.panel_training import LinearPanelTraining, read
from learndyn.families.wide.problem_arrays import WideSetting, wide_setting
from learndyn.memory import require_memory
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.normals import QuasiNormals
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.activations import Activation, Relu
from learndyn.problem.checks import boolean, number, optional
from learndyn.problem.part import field
from learndyn.problem.problem import Problem
from learndyn.problem.training import GradientDescent
from learndyn.problem.weight_response import PerStepRule
from learndyn.programs import Limit
from learndyn.programs.backends import Backend
from learndyn.sampling.batches import Setting
from learndyn.sampling.method import SampledMethod
from learndyn.sampling.rules import refuse_in_flow

ROWS_WORK = 3e9
"""Up to this value of L·C·points²·states³ the row recursion takes seconds, and it gives the responses too."""
FLOW_TOLERANCE = 1e-3
"""The error of a step of gradient flow, unless a tolerance is given."""
AT_KINKS = 10.0
"""A step of gradient flow may have a larger error by this factor in single relu neurons: at kinks it averages out."""
SMOOTH_DROP, RELU_DROP, LINEAR_DROP = 3e-3, 3e-2, 1e-5
"""Parts of vectors that weight matrices leave out: predictions then change by less than the usual errors."""
NOISY_DROP = 3e-4
"""The least drop with Langevin noise in single precision. With 1e-5, deep linear networks blew up."""
RESPONSE_DROP = 1e-6
"""The same if responses are asked for: they need all directions."""
SERIES_SAMPLES, SERIES_BATCHES = 8192, 8
"""Samples of a batch, and batches, of the expansion in γ_0² of one hidden layer."""
MANY_STEPS, FEW_JUMPS = 5000, 50
"""Beyond so many steps panels are used, if few steps are recorded and the learning rate jumps less often than that."""
NODES_OF_A_START, NODES_OF_A_DECADE, MANY_ROWS = 40, 20, 3000
"""Panels take about so many nodes at first and for each decade of gradient flow; with so many rows, nodes times trained
points, they take minutes."""
INNOVATION = 1e-10
"""The innovation basis drops a new direction below this share of a vector."""


def layers_of(setting: WideSetting) -> dict[str, np.ndarray]:
    """The labels of the layers."""
    return {"layer": np.arange(1, setting.depth + 1)}


class WideMethod(Method, abstract=True):
    """Base of the methods for wide networks.

    - `tolerance`: accuracy of gradient flow, relative to the largest prediction or loss. 1e-3 unless given.
    """

    tolerance: float = field(number(above=0), default=1e-3)

    @abc.abstractmethod
    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
        """All observables of gradient descent at the recorded steps."""

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_plain(self, problem)
        return in_steps_or_time(problem, record, self.tolerance, report, self.descent)

    def way(self, problem: Problem) -> Way:
        """In processes, because Python leads the computation."""
        return "processes"


def _with_losses(
    problem: Problem, setting: WideSetting, arrays: dict, saved: np.ndarray
) -> dict[str, np.ndarray]:
    """The arrays with predictions and losses at the saved states instead of the outputs f at all states."""
    outputs = arrays.pop("f")[saved]
    return arrays | losses(setting.loss, outputs, problem.data.test_targets)


def _need_plain(method: Method, problem: Problem) -> None:
    """Refuse options that only sampled layers have."""
    if not problem.network.plain:
        raise NoTheory(
            f"{type(method).__name__} is for networks without convolution, skips and norm that are trained by "
            "backprop; use SampledLayers"
        )


def _need_linear(method: WideMethod, problem: Problem) -> None:
    """Refuse activations that are not linear."""
    if not is_linear(problem.network.activation):
        allowed = "is for linear activations only; use SampledLayers"
        raise ProblemError("method", type(method).__name__, allowed)


class LinearRows(WideMethod):
    """Linear networks of any depth, exactly, by the row recursion; with responses."""

    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
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

    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
        _need_linear(self, problem)
        if not self.suits(problem):
            allowed = "must be LinearRows with Langevin noise, or with biases in several layers"
            raise ProblemError("method", "LinearInnovation", allowed)
        setting = wide_setting(problem, int(record.last))
        rule = PerStepRule.of(problem.training)
        solution = solve_innovation(setting, rule, record.at, INNOVATION, report)
        saved = record.at[record.at < solution.reached]
        arrays = {"f": solution.f} | of_linear_units(setting, solution.Phi, solution.G)
        arrays = _with_losses(problem, setting, arrays, saved)
        evidence = {"solver": "innovation basis, linear units", "basis": solution.basis}
        return Curves(
            TABLE, record, arrays, len(saved), labels=layers_of(setting), evidence=evidence
        )


class LinearPanels(WideMethod):
    """Linear networks to very long times: gradient flow, and descent of millions of steps, on a few hundred nodes.

    - `tolerance`: the relative accuracy of losses; one that vanishes counts as a thousandth of its start at least.
      Default: 1e-5.

    Without Langevin noise. Responses are left out. The first 40 steps of gradient descent, or 20/(1 − β) with momentum
    β ≤ 0.96, are carried out one by one; training must not be at the edge of stability by then.
    """

    libraries = ("numba",)

    tolerance: float = field(number(minimum=1e-9, maximum=1e-2), default=1e-5)

    @staticmethod
    def suits(problem: Problem) -> bool:
        """Whether the problem can be solved in panels."""
        training = problem.training
        plain = not training.noise and training.momentum <= MOST_MOMENTUM
        return is_linear(problem.network.activation) and plain

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_plain(self, problem)
        if problem.training.time is not None:
            refuse_in_flow(problem.training)
        if not self.suits(problem):
            allowed = f"is for linear activations, a momentum up to {MOST_MOMENTUM} and no noise; use LinearRows"
            raise ProblemError("method", "LinearPanels", allowed)
        setting = wide_setting(problem, 1, GradientDescent(1.0, steps=1))
        training = problem.training
        rule = float(training.weight_decay), float(training.momentum)
        # Products of a few rows are slower on several threads.
        with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
            solution = solve_in_panels(
                lambda: LinearPanelTraining(setting, *rule),
                functools.partial(read, test_targets=problem.data.test_targets),
                Course(training, record.at),
                record.at,
                self.tolerance,
                report,
            )
        evidence = {
            "solver": "panels, linear units",
            "nodes": solution.nodes,
            "accuracy": solution.accuracy,
        }
        arrays = solution.arrays
        reached, labels = len(arrays["train_loss"]), layers_of(setting)
        return Curves(TABLE, record, arrays, reached, labels=labels, evidence=evidence)

    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
        return self.solve(problem, record, 0, report)


class SampledLayers(SampledMethod):
    """Networks of any depth: the neurons of all layers, sampled, with weights revealed as far as they are asked.

    The mean over independent batches is the result, and their spread gives its standard error. With a `tolerance`, a
    pilot finds out how many samples that takes, and more are run until the error is so small.

    - `tolerance`: the largest standard error of an observable, times its largest value if that is above 1; in gradient
      flow also the accuracy of the outputs. Not given: a number of samples is run, and the accuracy of flow is 1e-3.
    - `samples`: neurons of each layer in a batch, a power of two. Not given: 2048, or five for each direction that the
      weights of a layer are asked; with a tolerance, as many as it takes.
    - `batches`: independent batches, at least two; with a tolerance, at first. 8 unless given.
    - `precision`: of vectors, "single" or "double"; averages and small arrays are always double. "single" unless given.
    - `drop`: a weight matrix leaves out what is shorter than this part of a vector. Not given: 3e-3, 3e-2 for a
      relu, and 1e-5 for linear units in double precision.
    - `responses`: whether A and B are solved for too, from vectors in double precision and with a drop of 1e-6 unless
      that is given. Their cost is that of all states of all points. False unless given.
    """

    drop: float | None = field(optional(number(minimum=0, below=0.1)), default=None)
    responses: bool = field(boolean, default=False)

    def setting(self, problem: Problem, record: Record, seed: int) -> Setting:
        if math.isinf(problem.network.depth):
            raise NoTheory("SampledLayers needs a finite depth; use DepthExtrapolation")
        if record.axis == "time":
            refuse_in_flow(problem.training)
            # Chebyshev's rule takes about the square root of so many steps.
            refuse_steps(problem, problem.training.time / first_step(problem), MOST_STEPS**2)
        if self.responses:
            self._check_responses(problem, record)
        accuracy = FLOW_TOLERANCE if self.tolerance is None else self.tolerance
        if isinstance(problem.network.activation, Relu):
            accuracy *= AT_KINKS
        drop = RESPONSE_DROP if self.responses and self.drop is None else self.drop
        return _sampled_setting(
            dataclasses.replace(self, precision="double") if self.responses else self,
            problem,
            record,
            seed,
            drop,
            training_loop,
            tolerance=accuracy,
            with_responses=self.responses,
        )

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        curves = super().solve(problem, record, seed, report).told(solver="sampled layers")
        if record.axis == "step":
            return curves
        accuracy = FLOW_TOLERANCE if self.tolerance is None else self.tolerance
        names = [name for name in ("prediction", "test_prediction") if name in curves.arrays]
        return curves.told(accuracy=dict.fromkeys(names, accuracy))

    def _check_responses(self, problem: Problem, record: Record) -> None:
        if record.axis == "time":
            allowed = (
                "must be False in gradient flow, where a response to a single step has no limit"
            )
        elif problem.training.noise:
            allowed = "must be False with Langevin noise"
        elif not problem.network.plain:
            allowed = "must be False with a convolution, learning rule, skip or norm"
        else:
            return
        raise ProblemError("SampledLayers.responses", True, allowed)


def _drop_of(activation: Activation, precision: str) -> float:
    """What weight matrices leave out unless the user says so."""
    if is_linear(activation) and precision == "double":
        return LINEAR_DROP
    return RELU_DROP if isinstance(activation, Relu) else SMOOTH_DROP


def _sampled_setting(
    method: SampledMethod,
    problem: Problem,
    record: Record,
    seed: int,
    drop: float | None,
    loop: Callable[..., None],
    **options: Any,
) -> Setting:
    """Batches of a training loop of wide networks, with the observables of wide networks."""
    setting = wide_setting(problem, 1, GradientDescent(1.0, steps=1))
    _require_room_for_kernels(setting, len(record), method.batches)
    if drop is None:
        drop = _drop_of(problem.network.activation, method.precision)
    if problem.training.noise and method.precision == "single" and drop < NOISY_DROP:
        allowed = (
            f"must be at least {NOISY_DROP:g} with Langevin noise in single precision, where less is rounding; or use "
            "precision='double'"
        )
        raise ProblemError(f"{type(method).__name__}.drop", drop, allowed)

    def begin(backend: Backend, kept: Record | None) -> WideProgram:
        states = record if kept is None else kept
        program = functools.partial(
            loop, problem=problem, setting=setting, record=states, **options
        )
        return WideProgram(program, backend, kept, problem, setting)

    return Setting(
        Limit(drop=drop, single=method.precision == "single"),
        begin,
        TABLE,
        record,
        seed,
        labels=layers_of(setting),
        combined=lambda batches: with_unbiased_losses(problem, setting, batches),
        aside=("preactivation",),
        doubtful=("movement", "A", "B"),
        kept_bytes=_kept_bytes(setting, len(record), method.precision),
    )


def _require_room_for_kernels(setting: WideSetting, states: int, batches: int) -> None:
    """Refuse kernels at all pairs of recorded states that do not fit in memory, and say how many states would."""
    # Those of all batches are stacked; their mean, their error and a deviation are three more.
    numbers = setting.depth * setting.points**2 * (1 + setting.outputs**2) * (2 * batches + 3)
    fits = math.isqrt(int(psutil.virtual_memory().available / (8 * numbers)))
    require_memory(
        8.0 * numbers * states**2,
        f"{batches} batches of kernels of {setting.points} points at {states} recorded states",
        f"{fits} states would fit (save_at)",
    )


def _kept_bytes(setting: WideSetting, states: int, precision: str) -> float:
    """Memory of φ and g of one neuron of every layer, at the recorded states."""
    vectors = setting.depth * states * setting.points * (1 + setting.outputs)
    return vectors * (4 if precision == "single" else 8)


def with_unbiased_losses(
    problem: Problem, setting: WideSetting, batches: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The batches with pseudo-values of losses: the loss of a batch is too high by half the variance of its outputs."""
    f = np.concatenate(
        [batches[name] for name in ("prediction", "test_prediction") if name in batches], axis=2
    )
    test_targets = problem.data.test_targets
    return batches | pseudovalues(lambda mean: losses(setting.loss, mean, test_targets), f)


class GradientIndependence(SampledMethod):
    """No responses (A = B = 0): the backward pass as if through weights of its own. Exact for one hidden layer.

    Outputs follow the tangent kernel of the fields, f(t+1) = f(t) + ηK(t, t)E(t); plain gradient descent only. Linear
    networks need no samples; others are trained in steps, and sampled as by `SampledLayers`.

    - `tolerance`: of networks that are sampled, the largest standard error of an observable, times its largest value if
      that is above 1; of linear networks, the accuracy of gradient flow, 1e-3 unless given.
    - `samples`, `batches`, `precision`: as in `SampledLayers`.
    """

    def way(self, problem: Problem) -> Way:
        return "processes" if is_linear(problem.network.activation) else "alone"

    def setting(self, problem: Problem, record: Record, seed: int) -> Setting:
        return _sampled_setting(self, problem, record, seed, None, gradient_independent_loop)

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        _need_plain(self, problem)
        if is_linear(problem.network.activation):
            accuracy = FLOW_TOLERANCE if self.tolerance is None else self.tolerance
            return in_steps_or_time(problem, record, accuracy, report, self._exact)
        plain_rates(wide_setting(problem, int(record.last)), type(self).__name__)
        if record.axis == "time":
            raise NoTheory(
                "GradientIndependence of nonlinear networks needs training in steps; give steps instead of a time"
            )
        return super().solve(problem, record, seed, report).told(solver="independent gradients")

    def _exact(self, problem: Problem, record: Record, report: Report) -> Curves:
        setting = wide_setting(problem, int(record.last))
        plain_rates(setting, type(self).__name__)
        require_memory(
            linear_memory(setting), f"{setting.states - 1} steps", "use fewer points or steps"
        )
        solution = gradient_independent_linear(setting, report)
        return curves_of_rows(problem, setting, record, solution)


class StaticKernel(WideMethod):
    """The lazy limit γ_0 → 0: outputs follow the tangent kernel of the start, f(t+1) = f(t) + ηK(0)E(t).

    The squared loss is solved mode by mode, exactly at any time (`wide/equations/static.py`); others are stepped.
    """

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        if problem.training.criterion != "squared":
            return super().solve(problem, record, seed, report)
        _need_plain(self, problem)
        training = problem.training
        if training.time is not None:
            refuse_in_flow(training)
        setting = wide_setting(problem, 1, GradientDescent(1.0, steps=1))

        def outputs(K0: np.ndarray) -> np.ndarray:
            return static_outputs(setting, training, K0, record.at)

        return _of_static_kernel(problem, setting, record, outputs)

    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
        refuse_moving_weights(problem.training)
        setting = wide_setting(problem, int(record.last))
        return _of_static_kernel(
            problem, setting, record, lambda K0: static_kernel(setting, K0)[record.at]
        )


def _of_static_kernel(
    problem: Problem,
    setting: WideSetting,
    record: Record,
    outputs: Callable[[np.ndarray], np.ndarray],
) -> Curves:
    """The curves of the initial kernel; `outputs` finds those of all points at the recorded states."""
    start = initial_kernels(setting)
    f = outputs(start.kernel)
    reached = next((t for t, now in enumerate(f) if setting.diverged(now)), len(f))

    def arrays(start: InitialKernels, f: np.ndarray) -> dict[str, np.ndarray]:
        of_outputs = losses(setting.loss, f[:reached], problem.data.test_targets)
        return of_outputs | _static(setting, start, reached)

    found, evidence = arrays(start, f), {"solver": "static kernel"}
    curves = Curves(TABLE, record, found, reached, labels=layers_of(setting), evidence=evidence)
    if not on_grid(setting):
        return curves
    # The spread of the grids gives the error of their mean if their errors are independent, as they are at a kink.
    starts = [initial_kernels(setting, slice(r, r + 1)) for r in range(GRIDS)]
    by_grid = [arrays(start, outputs(start.kernel)) for start in starts]
    factor = float(stdtrit(GRIDS - 1, 0.975))
    errors = {name: mean_and_error([grid[name] for grid in by_grid])[1] for name in found}
    return curves.told(
        accuracy={n: factor * float(np.max(x, initial=0.0)) for n, x in errors.items()}
    )


def _static(setting: WideSetting, start: InitialKernels, n: int) -> dict[str, np.ndarray]:
    """The kernels at n states, all those of the start."""
    p, C = setting.points, setting.outputs
    Phi = np.broadcast_to(start.Phi[1:, None, :, None], (setting.depth, n, p, n, p))
    G = np.einsum("lma,cd,t,s->ltmcsad", start.G[:-1], np.eye(C), np.ones(n), np.ones(n))
    return with_summaries(setting, Phi, G)


class Perturbative(WideMethod):
    """To the leading order γ_0² in which features move: deep linear networks, and one hidden layer of smooth units.

    Plain gradient descent only. Linear networks are exact; others are averages over eight batches of 8192 samples.
    """

    def solve(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        if is_linear(problem.network.activation):
            return super().solve(problem, record, seed, report)
        _need_plain(self, problem)
        network = problem.network
        if network.depth > 1 or isinstance(network.activation, Relu):
            raise NoTheory(
                "perturbation theory is known only for linear activations, and for one hidden layer of smooth ones; "
                "use StaticKernel"
            )
        if record.axis == "time":
            raise NoTheory("perturbation theory of nonlinear networks needs training in steps")
        return self._sampled(problem, record, seed, report)

    def _sampled(self, problem: Problem, record: Record, seed: int, report: Report) -> Curves:
        """One hidden layer: averages over batches."""
        setting, saved = wide_setting(problem, int(record.last)), record.at
        F = covariance_root(setting.K + setting.bias, rank=True)
        batches = []
        for done, sequence in enumerate(np.random.SeedSequence(seed).spawn(SERIES_BATCHES), 1):
            count = F.shape[1] + setting.outputs
            normals = QuasiNormals(SERIES_SAMPLES // 2, sequence).columns(0, count).T
            u, r = F @ normals[: F.shape[1]], normals[F.shape[1] :]
            series = second_order(setting, np.hstack([u, u]), np.hstack([r, -r]), saved)
            arrays = {"f": series.f} | with_summaries(setting, series.Phi, series.G)
            arrays["kernel"] = series.kernel
            batches.append(_with_losses(problem, setting, arrays, saved))
            report(done / SERIES_BATCHES)
        stacked = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
        evidence = {"solver": "leading order in γ_0²", "samples": SERIES_SAMPLES}
        like = Curves(TABLE, record, batches[0], labels=layers_of(setting), evidence=evidence)
        return of_batches(like, with_unbiased_losses(problem, setting, stacked), len(record))

    def descent(self, problem: Problem, record: Record, report: Report) -> Curves:
        setting, saved = wide_setting(problem, int(record.last)), record.at
        expansion = perturbative_linear(setting)
        H, G = (expansion[name][:, saved][:, :, :, saved] for name in ("H", "G"))
        arrays = {"f": expansion["f"]} | of_linear_units(setting, H, G)
        # To the order γ_0²; the product of corrected kernels would contain higher orders.
        arrays["kernel"] = expansion["kernel"][saved]
        arrays = _with_losses(problem, setting, arrays, saved)
        evidence = {"solver": "leading order in γ_0²"}
        return Curves(TABLE, record, arrays, labels=layers_of(setting), evidence=evidence)


def automatic(problem: Problem, record: Record) -> Method:
    """The full theory: exact for linear networks, by sampled layers for others."""
    network, data = problem.network, problem.data
    if not network.plain:
        return SampledLayers()
    if not is_linear(network.activation):
        return SampledLayers()
    if _panels_pay(problem, record):
        return LinearPanels()
    if not LinearInnovation.suits(problem):
        return LinearRows()
    work = network.depth * data.outputs * float(data.total) ** 2 * float(record.last + 1) ** 3
    # Gradient flow takes many small steps, and has no responses.
    return LinearInnovation() if record.axis == "time" or work > ROWS_WORK else LinearRows()


def _panels_pay(problem: Problem, record: Record) -> bool:
    """Whether panels are the best for a linear network: in flow, and over very many steps of which few are recorded."""
    training = problem.training
    if not LinearPanels.suits(problem) or len(training.breakpoints(record.last)) > FEW_JUMPS:
        return False
    if record.axis == "step":
        return record.last > MANY_STEPS and len(record) <= MOST_EDGES
    decades = np.log10(1 + FIRST_STEP * training.time / first_step(problem))
    nodes = NODES_OF_A_START + NODES_OF_A_DECADE * decades
    # A time that is too long for small steps has no other method.
    hopeless = FIRST_STEP * training.time / first_step(problem) > MOST_STEPS / 8
    return hopeless or nodes * problem.data.trained < MANY_ROWS
