"""The methods for wide networks: the full theory in four forms, and its approximations."""

import abc
import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from learndyn.core.batches import power_of_two, pseudovalues
from learndyn.core.curves import Curves, of_batches
from learndyn.core.memory import require_memory
from learndyn.core.method import Method
from learndyn.core.progressing import Progressing, Report
from learndyn.core.record import Record
from learndyn.core.threads import in_threads, workers
from learndyn.errors import NoTheory, ProblemError
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
    Sweep,
    linear_memory,
    solve_linear,
)
from learndyn.families.wide.equations.particles import TrainingRule, move
from learndyn.families.wide.equations.sampled import Sweep as Sampled
from learndyn.families.wide.equations.sampled import sweep
from learndyn.families.wide.flow import flow
from learndyn.families.wide.kernels import is_linear, of_linear_units, with_summaries
from learndyn.families.wide.observables import TABLE, losses
from learndyn.families.wide.setting import Setting, setting
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.gram import gram
from learndyn.numerics.rules import quasi_random_rule
from learndyn.numerics.statistics import mean_and_error
from learndyn.problem.activations import Relu
from learndyn.problem.checks import choice, number, whole
from learndyn.problem.part import field
from learndyn.problem.weight_response import rates

ROWS_WORK = 3e9
"""Up to this many L·C·points²·states³ the row recursion takes seconds, and it gives the responses too."""
INNOVATION = 1e-10
"""The innovation basis drops a new direction below this share of a vector."""
STEIN_SHARE = 0.25
"""Stein responses to more directions than this share of the samples have a bias that half the samples do not show.

Two relu layers, eight points, 30 steps: the last loss is 42 ± 4 % off at a share of 0.48, 3 ± 3 % and, in another run,
9 ± 4 % at 0.24.
"""
OTHER_SEED = 10**9
"""Keeps the samples that show a bias apart from those of another seed."""
PREACTIVATIONS = 512
"""So many samples of the preactivations are kept."""


def layers_of(made: Setting) -> dict[str, np.ndarray]:
    """The labels of the layers."""
    return {"layer": np.arange(1, made.depth + 1)}


class WideMethod(Method, abstract=True):
    """Base of the methods. Gradient flow is known to `tolerance`, relative to the largest prediction or loss."""

    tolerance: float = field(number(above=0), default=1e-3)

    @abc.abstractmethod
    def descent(self, problem, record: Record, seed: int, report: Report) -> Curves:
        """All observables of gradient descent at the recorded steps."""

    def costly(self, problem) -> bool:
        """Whether the cost grows as the third power of the steps."""
        return False

    def solve(self, problem, record, seed, report):
        if record.axis == "step":
            return self.descent(problem, record, seed, report)

        def descend(stepped, steps: Record, advance: Report) -> Curves:
            return self.descent(stepped, steps, seed, advance)

        return flow(problem, record, self.tolerance, report, descend, self.costly(problem))

    def way(self, problem):
        """Led by Python."""
        return "processes"


def _with_losses(problem, made: Setting, arrays: dict, saved: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays with predictions and losses in the place of the outputs f at all states."""
    outputs = arrays.pop("f")[saved]
    return arrays | losses(made.loss, outputs, problem.data.test_targets)


def _need_linear(method: WideMethod, problem) -> None:
    if not is_linear(problem.network.activation):
        others = "Particles" if problem.network.depth == 1 else "SampledLayers"
        allowed = f"is for linear activations only; use {others}"
        raise ProblemError("method", type(method).__name__, allowed)


class LinearRows(WideMethod):
    """Linear networks of any depth, exactly, by the row recursion; with responses."""

    def descent(self, problem, record, seed, report):
        _need_linear(self, problem)
        made = setting(problem, int(record.last))
        require_memory(linear_memory(made), f"{made.states - 1} steps", "use fewer points or steps")
        return curves_of_rows(problem, made, record, solve_linear(made, report))

    def start(self, problem, seed=0):
        _need_linear(self, problem)
        if problem.training.time is not None:
            return super().start(problem, seed)
        made = setting(problem, problem.training.steps)
        require_memory(linear_memory(made), f"{made.states - 1} steps", "use fewer points or steps")
        return LinearTraining(problem, made)


def curves_of_rows(problem, made: Setting, record: Record, found: LinearSolution) -> Curves:
    """The curves of a row recursion."""
    saved = record.at[record.at < found.reached]
    arrays = _with_losses(problem, made, {"f": found.f} | of_rows(made, found, saved), saved)
    evidence = {"solver": "exact, linear units"}
    return Curves(TABLE, record, arrays, len(saved), labels=layers_of(made), evidence=evidence)


def of_rows(made: Setting, found: LinearSolution, saved: np.ndarray) -> dict[str, np.ndarray]:
    """Kernels and responses of a row recursion at the saved steps."""

    def at(array):
        return array[:, saved][:, :, :, saved]

    arrays = of_linear_units(made, at(found.H), at(found.G))
    if found.A is not None and found.B is not None:
        # Linear units have the same gradient on every point, and only the sum of the responses to all is defined.
        p = made.points
        arrays["A"] = np.repeat(at(found.A)[:, :, :, :, None] / p, p, axis=4)
        arrays["B"] = np.repeat(at(found.B)[:, :, None], p, axis=2)
    return arrays


class LinearTraining(Progressing):
    """The row recursion of a linear network on its way through training."""

    now: int = 0

    def __init__(self, problem, made: Setting):
        self.problem, self.made, self.rows = problem, made, Sweep(made)
        self.kept: list[int] = []

    def labels(self):
        return layers_of(self.made)

    def advance(self, states, report):
        states = np.asarray(states)
        self.rows.advance(int(states[-1]) + 1, report)
        reached = states[states < self.rows.reached].tolist()
        self.kept += reached
        self.now = reached[-1] if reached else self.now
        return len(reached)

    def arrays(self):
        return self._at(np.array(self.kept, dtype=int))

    def observe(self):
        found = self._at(np.array([self.now]))
        # Features have moved since the start, which is not among these states.
        moved = self._at(np.array([0, self.now]))["movement"]
        return found | {"movement": moved[:, 1:]}

    def _at(self, states: np.ndarray) -> dict[str, np.ndarray]:
        found = self.rows.solution()
        arrays = {"f": found.f} | of_rows(self.made, found, states)
        return _with_losses(self.problem, self.made, arrays, states)

    def after(self):
        return self.now + 1


class LinearInnovation(WideMethod):
    """Linear networks over long runs, exactly, by the innovation basis; without responses."""

    def start(self, problem, seed=0):
        if problem.training.time is not None:
            return super().start(problem, seed)
        raise NoTheory(
            "LinearInnovation solves the whole of training at once; use solve, or LinearRows to advance step by step"
        )

    @staticmethod
    def suits(problem) -> bool:
        """Whether the basis stays small: without Langevin noise, and without biases in several layers."""
        network = problem.network
        return not problem.training.noise and not (network.bias and network.depth > 1)

    def descent(self, problem, record, seed, report):
        _need_linear(self, problem)
        if not self.suits(problem):
            allowed = "must be LinearRows with Langevin noise, or with biases in several layers"
            raise ProblemError("method", "LinearInnovation", allowed)
        made, training = setting(problem, int(record.last)), problem.training
        eta = np.asarray(rates(training, training.steps), dtype=float)
        given = (eta, training.momentum, training.weight_decay, record.at, INNOVATION, report)
        found = solve_innovation(made, *given)
        saved = record.at[record.at < found.reached]
        arrays = {"f": found.f} | of_linear_units(made, found.Phi, found.G)
        arrays = _with_losses(problem, made, arrays, saved)
        evidence = {"solver": "innovation basis, linear units", "basis": found.basis}
        return Curves(TABLE, record, arrays, len(saved), labels=layers_of(made), evidence=evidence)


class InBatches(WideMethod, abstract=True):
    """Base of the methods that sample neurons: the mean over `batches` independent batches of `samples` of each layer.

    Their spread is the standard error.
    """

    samples: int = field(power_of_two, default=1024)
    batches: int = field(whole(2), default=8)

    @abc.abstractmethod
    def batch(self, problem, made: Setting, saved: np.ndarray) -> tuple[Callable, dict]:
        """What solves one batch, and evidence: `run(seed, report) -> (arrays, states reached)`.

        Arrays have the observables, and the outputs `f` at all states.
        """

    def way(self, problem):
        """Batches use all cores."""
        return "alone"

    def descent(self, problem, record, seed, report):
        made, saved = setting(problem, int(record.last)), record.at
        run, evidence = self.batch(problem, made, saved)
        seeds = np.random.SeedSequence(seed).spawn(self.batches)

        def one(index: int, advance: Report) -> tuple[Curves, np.ndarray, np.ndarray]:
            arrays, reached = run(seeds[index], advance)
            f, samples = arrays.pop("f"), arrays.pop("preactivation")
            count = int(np.count_nonzero(saved < reached))
            return Curves(TABLE, record, arrays, count, labels=layers_of(made)), f, samples

        found = dict(in_threads(one, range(self.batches), report))
        each, outputs, samples = zip(*(found[index] for index in sorted(found)), strict=True)
        count = min(curves.count for curves in each)
        cut = [curves.cut(count) for curves in each]
        batches = {name: np.stack([curves[name] for curves in cut]) for name in cut[0].arrays}
        # The loss of a batch is high by half the variance of its outputs.
        outputs = np.stack([f[saved[:count]] for f in outputs])
        test_targets = problem.data.test_targets
        batches |= pseudovalues(lambda f: losses(made.loss, f, test_targets), outputs)
        evidence |= {"samples": self.samples, "batches": self.batches}
        curves = of_batches(cut[0], batches, count, evidence)
        # Samples are those of one batch, and have no mean.
        arrays = curves.arrays | {"preactivation": samples[0]}
        return dataclasses.replace(curves, arrays=arrays)


class Particles(InBatches):
    """One hidden layer: every neuron is a particle that moves on its own, from quasi-random starts."""

    def batch(self, problem, made, saved):
        if made.depth != 1:
            other = "LinearRows" if is_linear(made.activation) else "SampledLayers"
            allowed = f"is for one hidden layer; use {other}"
            raise ProblemError("method", "Particles", allowed)
        training, steps = problem.training, made.states - 1
        eta = np.asarray(rates(training, training.steps), dtype=float)[:steps]
        rule = TrainingRule(eta, training.momentum, training.weight_decay, training.noise)
        dimensions = covariance_root(made.K + made.bias, rank=True).shape[1] + made.outputs
        if self.samples < 4 * dimensions:
            allowed = f"must be at least {4 * dimensions}, for particles in {dimensions} dimensions"
            raise ProblemError("Particles.samples", self.samples, allowed)
        needed = 8.0 * 2 * self.samples * made.points * (len(saved) * (2 + made.outputs) + 12)
        purpose = f"{steps} steps of particles"
        require_memory(workers(self.batches) * needed, purpose, "use fewer samples")

        def run(seed: np.random.SeedSequence, advance: Report):
            entropy = int(seed.generate_state(1)[0])
            quadrature = quasi_random_rule(dimensions, self.samples, 1, entropy).replicate(0)
            found = move(made, rule, quadrature, saved, np.random.default_rng(seed), advance)
            n, p, C = len(found.phi), made.points, made.outputs
            weights = found.weights
            Phi = gram(found.phi.reshape(n, p, len(weights)), weights=weights)[None]
            G = gram(found.g.reshape(n, p, C, len(weights)), weights=weights)[None]
            kept = found.h.reshape(1, n, p, len(weights))[..., :PREACTIVATIONS]
            arrays = {"f": found.f, "preactivation": kept} | with_summaries(made, Phi, G)
            return arrays, found.reached

        return run, {"solver": "particles, quasi-random"}


class OfLayers(InBatches, abstract=True):
    """Base of the methods that sample the processes of all layers; their cost grows as the third power of the steps."""

    def costly(self, problem):
        return True

    def uses_stein(self, problem) -> bool:
        """Whether responses come from integration by parts."""
        return False

    @property
    @abc.abstractmethod
    def responded(self) -> str:
        """What the evidence says of responses that are not from integration by parts."""

    @abc.abstractmethod
    def sampled(
        self, made: Setting, seed: np.random.SeedSequence, report: Report, stein: bool
    ) -> Sampled:
        """One batch of all layers."""

    def batch(self, problem, made, saved):
        stein = self.uses_stein(problem)
        n, p, C, L = made.states, made.points, made.outputs, made.depth
        rows = float(n * p)
        needed = 8.0 * L * (self.samples * rows * (5 + 3 * C) + rows**2 * (2 + 4 * C + C * C))
        purpose = f"{n - 1} steps of {p} points"
        require_memory(workers(self.batches) * needed, purpose, "use fewer samples or steps")

        def run(seed: np.random.SeedSequence, advance: Report):
            found = self.sampled(made, seed, advance, stein)
            kept = saved[saved < found.reached]
            Phi = np.stack([layer.Phi[kept][:, :, kept] for layer in found.layers])
            G = np.stack([layer.G[kept][:, :, :, kept] for layer in found.layers])
            shape = (L, len(kept), p, min(self.samples, PREACTIVATIONS))
            samples = [[layer.h[t][:, :PREACTIVATIONS] for t in kept] for layer in found.layers]
            arrays = {
                "f": found.f,
                "A": np.stack([layer.A[kept][:, :, kept] for layer in found.layers]),
                "B": np.stack([layer.B[kept][:, :, :, kept] for layer in found.layers]),
                "preactivation": np.reshape(samples, shape),
            }
            return arrays | with_summaries(made, Phi, G), found.reached

        responses = "stein" if stein else self.responded
        return run, {"solver": "sampled layers", "responses": responses}


class WithResponses(OfLayers, abstract=True):
    """Base of the methods with responses.

    `responses` come from tracing changes back through every sample ("adjoint"), or from Gaussian integration by parts
    ("stein", which a relu needs); "auto" picks. `precision` is that of the tracing, most of the cost: what "single"
    rounds is far below the standard errors. All else is in double precision.
    """

    responses: str = field(choice("auto", "adjoint", "stein"), default="auto")
    precision: str = field(choice("single", "double"), default="single")

    @property
    def responded(self):
        return f"adjoint, {self.precision} precision"

    def uses_stein(self, problem):
        relu = isinstance(problem.network.activation, Relu)
        return self.responses == "stein" or (self.responses == "auto" and relu)

    def descent(self, problem, record, seed, report):
        """With Stein responses, half the samples show their bias, which is the accuracy."""
        if not self.uses_stein(problem):
            return super().descent(problem, record, seed, report)
        _check_stein(self, setting(problem, int(record.last)))
        full = super().descent(problem, record, seed, lambda x: report(0.6 * x))
        halved = dataclasses.replace(self, samples=self.samples // 2)
        # Other samples, so that the two do not share their noise.
        other = InBatches.descent(
            halved, problem, record, seed + OTHER_SEED, lambda x: report(0.6 + 0.4 * x)
        )
        # Single entries of A and B are noise, and the preactivations are single samples.
        judged = [name for name in full.arrays if name not in ("A", "B", "preactivation")]
        return full.told(accuracy=full.restricted(judged).differences(other))


class SampledLayers(WithResponses):
    """Networks of any depth: the processes of all layers, sampled, in one causal sweep."""

    def sampled(self, made, seed, report, stein):
        return sweep(made, self.samples, seed, report, stein, False, self.precision)


def _check_stein(method: InBatches, made: Setting) -> None:
    """Refuse Stein responses that would be wrong without showing it, and say how many samples would do."""
    directions = made.states * made.points * made.outputs
    if directions <= STEIN_SHARE * method.samples:
        return
    enough = 2 ** math.ceil(math.log2(directions / STEIN_SHARE))
    counts = f"{made.states} states of {made.points} points"
    if made.outputs > 1:
        counts += f" and {made.outputs} outputs"
    allowed = f"must be at least {enough} for {counts}: with fewer, responses by integration by parts are biased"
    if not isinstance(made.activation, Relu):
        allowed += "; or use responses = 'adjoint'"
    raise ProblemError(f"{type(method).__name__}.samples", method.samples, allowed)


class AlternatingIteration(WithResponses):
    """The paper's algorithm: iterate whole trajectories, new = (1 − `damping`) old + `damping` sampled.

    It ends when no output changes by more than `change`, or fails after `iterations`. Outputs follow the tangent
    kernel; plain gradient descent only.
    """

    damping: float = field(number(above=0, maximum=1), default=0.5)
    change: float = field(number(above=0), default=1e-4)
    iterations: int = field(whole(1), default=100)

    def sampled(self, made, seed, report, stein):
        plain_rates(made, type(self).__name__)
        given = (self.damping, self.change, self.iterations, self.precision)
        return alternate(made, self.samples, seed, report, stein, *given)


class GradientIndependence(OfLayers):
    """No responses (A = B = 0): the backward pass as if through weights of its own. Exact for one hidden layer.

    Outputs follow the tangent kernel of the fields, f(t+1) = f(t) + ηK(t, t)E(t); plain gradient descent only. Linear
    networks need no samples.
    """

    @property
    def responded(self):
        return "none"

    def costly(self, problem):
        return not is_linear(problem.network.activation)

    def way(self, problem):
        return "alone" if self.costly(problem) else "processes"

    def descent(self, problem, record, seed, report):
        made = setting(problem, int(record.last))
        plain_rates(made, type(self).__name__)
        if self.costly(problem):
            return super().descent(problem, record, seed, report)
        require_memory(linear_memory(made), f"{made.states - 1} steps", "use fewer points or steps")
        return curves_of_rows(problem, made, record, gradient_independent_linear(made, report))

    def sampled(self, made, seed, report, stein):
        return sweep(made, self.samples, seed, report, stein, True, "single")


class StaticKernel(WideMethod):
    """The lazy limit γ_0 → 0: outputs follow the tangent kernel of the start, f(t+1) = f(t) + ηK(0)E(t)."""

    def descent(self, problem, record, seed, report):
        made, saved = setting(problem, int(record.last)), record.at
        arrays = _with_losses(problem, made, _static(made, saved), saved)
        curves = Curves(TABLE, record, arrays, labels=layers_of(made))
        curves = curves.told(solver="static kernel")
        if not on_grid(made):
            return curves
        # The error of all grids together, from their spread, if their errors are independent, as they are at a kink.
        each = [
            _with_losses(problem, made, _static(made, saved, slice(r, r + 1)), saved)
            for r in range(GRIDS)
        ]
        factor = float(stdtrit(GRIDS - 1, 0.975))
        errors = {name: mean_and_error([x[name] for x in each])[1] for name in arrays}
        return curves.told(
            accuracy={n: factor * float(np.max(x, initial=0.0)) for n, x in errors.items()}
        )


def _static(made: Setting, saved, grids=slice(None)) -> dict[str, np.ndarray]:
    """All observables of a kernel that stays as it is at the start."""
    start, n, C = initial_kernels(made, grids), len(saved), made.outputs
    Phi = np.broadcast_to(
        start.Phi[1:, None, :, None], (made.depth, n, made.points, n, made.points)
    )
    G = np.einsum("lma,cd,t,s->ltmcsad", start.G[:-1], np.eye(C), np.ones(n), np.ones(n))
    return {"f": static_kernel(made, start.kernel)} | with_summaries(made, Phi, G)


class Perturbative(WideMethod):
    """Deep linear networks to the leading order γ_0² in which features move; plain gradient descent only."""

    def descent(self, problem, record, seed, report):
        made, saved = setting(problem, int(record.last)), record.at
        if not is_linear(made.activation):
            raise NoTheory(
                "perturbation theory is known for linear activations only; use StaticKernel"
            )
        found = perturbative_linear(made)
        H, G = (found[name][:, saved][:, :, :, saved] for name in ("H", "G"))
        arrays = {"f": found["f"]} | of_linear_units(made, H, G)
        # To the order γ_0², of which the product of corrected kernels has more.
        arrays["kernel"] = found["kernel"][saved]
        arrays = _with_losses(problem, made, arrays, saved)
        evidence = {"solver": "leading order in γ_0²"}
        return Curves(TABLE, record, arrays, labels=layers_of(made), evidence=evidence)


def automatic(problem, record: Record) -> WideMethod:
    """The full theory: exact for linear networks, by particles for one hidden layer, else by sampled layers."""
    network, data = problem.network, problem.data
    if not is_linear(network.activation):
        return Particles() if network.depth == 1 else SampledLayers()
    if not LinearInnovation.suits(problem):
        return LinearRows()
    work = network.depth * data.outputs * float(data.total) ** 2 * float(record.last + 1) ** 3
    # Gradient flow takes many small steps, and has no responses.
    return LinearInnovation() if record.axis == "time" or work > ROWS_WORK else LinearRows()
