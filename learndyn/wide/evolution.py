"""Solving wide networks: which solver suits the method, the activation and the depth, and what it gives."""

import dataclasses
import math

import numpy as np
from scipy.special import stdtrit

from learndyn.activations import Linear, Polynomial, Relu
from learndyn.batches import in_threads, pseudovalues, workers
from learndyn.errors import NoTheory, ProblemError
from learndyn.memory import require_memory
from learndyn.numerics.covariance import covariance_root
from learndyn.numerics.gram import gram
from learndyn.numerics.rules import quasi_random_rule
from learndyn.numerics.statistics import mean_and_error
from learndyn.numerics.times import resolve_steps
from learndyn.theory import Curves
from learndyn.training import rates
from learndyn.wide.alternating import alternate
from learndyn.wide.approximations import (
    GRIDS,
    gradient_independent_linear,
    initial_kernels,
    on_grid,
    perturbative_linear,
    plain_rates,
    static_kernel,
)
from learndyn.wide.flow import Descent, flow
from learndyn.wide.innovation import solve_innovation
from learndyn.wide.linear import linear_memory, solve_linear
from learndyn.wide.methods import (
    AlternatingIteration,
    GradientIndependence,
    KernelEvolution,
    Perturbative,
    SampledLayers,
    WideMethod,
)
from learndyn.wide.observables import kernel_summaries, losses, observables
from learndyn.wide.particles import TrainingRule, move
from learndyn.wide.sampled import sweep
from learndyn.wide.setting import Setting, setting

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


def is_linear(activation) -> bool:
    """Whether φ(h) = h."""
    if isinstance(activation, Polynomial):
        c = np.asarray(activation.coefficients)
        return len(c) >= 2 and c[1] == 1 and not np.any(np.delete(c, 1))
    return isinstance(activation, Linear)


def solve(problem, method: WideMethod, save_at, seed: int, report) -> Curves:
    """All observables at the recorded steps, or times of gradient flow."""
    if problem.training.time is None:
        saved = resolve_steps(save_at, problem.training.steps)
        return descent(problem, method, saved, seed, report).curves
    return flow(
        problem,
        save_at,
        method.tolerance,
        report,
        lambda stepped, saved, advance: descent(stepped, method, saved, seed, advance),
        costly=_by_layers(method, problem.network),
    )


def _by_layers(method: WideMethod, network) -> bool:
    """Whether layers are sampled, with a cost that grows as the third power of the steps."""
    if isinstance(method, AlternatingIteration):
        return True
    particles = isinstance(method, KernelEvolution) and network.depth == 1
    sampled = isinstance(method, SampledLayers) and not is_linear(network.activation)
    return sampled and not particles


def parallel(problem, method: WideMethod) -> str:
    """Samples come in batches on all cores; linear networks are led by Python."""
    sampled = isinstance(method, SampledLayers) and not is_linear(problem.network.activation)
    return "alone" if sampled else "processes"


def descent(problem, method: WideMethod, saved: np.ndarray, seed: int, report) -> Descent:
    """All observables of gradient descent after `saved` steps; with Stein responses, their bias is the accuracy."""
    if not isinstance(method, SampledLayers) or not _uses_stein(method, problem.network):
        return _descent(problem, method, saved, seed, report)
    _check_stein(method, setting(problem, int(saved[-1])))
    solution = _descent(problem, method, saved, seed, lambda x: report(0.6 * x))
    halved = dataclasses.replace(method, samples=method.samples // 2)
    # Other samples, so that the two do not share their noise.
    other = _descent(problem, halved, saved, seed + OTHER_SEED, lambda x: report(0.6 + 0.4 * x))
    accuracy = _differences(solution.curves, other.curves)
    evidence = solution.curves.evidence | {"accuracy": accuracy}
    return solution._replace(curves=dataclasses.replace(solution.curves, evidence=evidence))


def _uses_stein(method: WideMethod, network) -> bool:
    """Whether responses come from Gaussian integration by parts."""
    if (
        not isinstance(method, KernelEvolution | AlternatingIteration)
        or method.responses == "adjoint"
    ):
        return False
    if is_linear(network.activation) and isinstance(method, KernelEvolution):
        return False
    particles = isinstance(method, KernelEvolution) and network.depth == 1
    asked = method.responses == "stein" or isinstance(network.activation, Relu)
    return asked and not particles


def _differences(curves: Curves, halved: Curves) -> dict[str, float]:
    """The largest change of every observable by half the samples: as large as a bias of order 1/samples.

    Single entries of A and B are noise.
    """
    count = min(len(np.asarray(x.times)) for x in (curves, halved))
    accuracy = {}
    for name, observable in curves.observables.items():
        if name in ("A", "B", "preactivation"):
            continue
        first = tuple(slice(count if d in ("step", "step2") else None) for d in observable.dims)
        mine, theirs = (np.asarray(x.observables[name].values)[first] for x in (curves, halved))
        accuracy[name] = float(np.max(np.abs(mine - theirs), initial=0.0))
    return accuracy


def _descent(problem, method: WideMethod, saved: np.ndarray, seed: int, report) -> Descent:
    made = setting(problem, int(saved[-1]))
    batches: dict[str, np.ndarray] = {}
    test_targets = problem.data.test_targets
    if isinstance(method, SampledLayers):
        exact = is_linear(made.activation) and not isinstance(method, AlternatingIteration)
        if exact:
            arrays, reached, evidence = _linear(problem, method, made, saved, report)
        else:
            if not isinstance(method, KernelEvolution):
                plain_rates(made, type(method).__name__)
            arrays, batches, reached, evidence = _sampled(
                problem, method, made, saved, seed, report
            )
    else:
        arrays, reached, evidence = _without_samples(method, made, saved, test_targets)
    kept = saved[saved < reached]
    errors = {}
    if batches:
        # The loss of a batch is high by half the variance of its outputs.
        outputs = batches.pop("f")[:, kept]
        batches |= pseudovalues(lambda f: losses(made.loss, f, test_targets), outputs)
        for name, values in batches.items():
            arrays[name], errors[name] = mean_and_error(values)
    else:
        arrays |= losses(made.loss, arrays.pop("f")[kept], test_targets)
    curves = Curves(
        observables(arrays, "step", errors),
        kept,
        axis="step",
        coordinates={"layer": np.arange(1, made.depth + 1), "step2": kept},
        diverged_at=float(saved[len(kept)]) if len(kept) < len(saved) else None,
        evidence={"size_symbol": "N"} | evidence,
    )
    return Descent(curves, batches)


def _by_innovation(problem, method: SampledLayers, made: Setting) -> bool:
    """Whether the innovation basis suits; `ProblemError` where it is asked for and cannot do it."""
    if not isinstance(method, KernelEvolution) or method.form == "rows":
        return False
    cannot = problem.training.noise > 0 or (made.bias > 0 and made.depth > 1)
    if method.form == "innovation" and cannot:
        allowed = "must be 'rows' with Langevin noise, or with biases in several layers"
        raise ProblemError("KernelEvolution.form", "innovation", allowed)
    work = made.depth * made.outputs * float(made.points) ** 2 * float(made.states) ** 3
    return method.form == "innovation" or (work > ROWS_WORK and not cannot)


def _innovation(problem, made: Setting, saved, report):
    """Deep linear networks over long runs."""
    training = problem.training
    eta = np.asarray(rates(training, training.steps), dtype=float)
    found = solve_innovation(
        made, eta, training.momentum, training.weight_decay, saved, INNOVATION, report
    )
    arrays = {"f": found.f} | _from_linear(made, found.Phi, found.G)
    evidence = {"solver": "innovation basis, linear units", "basis": found.basis}
    return arrays, found.reached, evidence


def _linear(problem, method: SampledLayers, made: Setting, saved, report):
    """Deep linear networks, without samples."""
    if _by_innovation(problem, method, made):
        return _innovation(problem, made, saved, report)
    require_memory(linear_memory(made), f"{made.states - 1} steps", "use fewer points or steps")
    if isinstance(method, GradientIndependence):
        found = gradient_independent_linear(made, report)
    else:
        found = solve_linear(made, report)
    kept, p = saved[saved < found.reached], made.points
    H, G = _at(found.H, kept), _at(found.G, kept)
    arrays = {"f": found.f} | _from_linear(made, H, G)
    if found.A is not None and found.B is not None:
        # Linear units have the same gradient on every point, and only the sum of the responses to all is defined.
        A, B = _at(found.A, kept), _at(found.B, kept)
        arrays["A"] = np.repeat(A[:, :, :, :, None] / p, p, axis=4)
        arrays["B"] = np.repeat(B[:, :, None], p, axis=2)
    return arrays, found.reached, {"solver": "exact, linear units"}


def _at(array, kept):
    """A two-time array (layer, t, x, s, y) at the recorded states."""
    return array[:, kept][:, :, :, kept]


def _from_linear(made: Setting, H, G) -> dict:
    """Observables of linear units from H (L, n, p, n, p) and G (L, n, C, n, C)."""
    every = np.ones(made.points)
    G = np.einsum("ltcsd,m,a->ltmcsad", G, every, every)
    return {"Phi": H, "G": G} | _summaries(made, H, G)


def _without_samples(method: WideMethod, made: Setting, saved, test_targets):
    """The static kernel, and perturbation theory."""
    if isinstance(method, Perturbative):
        if not is_linear(made.activation):
            raise NoTheory(
                "perturbation theory is known for linear activations only; use StaticKernel"
            )
        found = perturbative_linear(made)
        arrays = {"f": found["f"]} | _from_linear(
            made, _at(found["H"], saved), _at(found["G"], saved)
        )
        # To the order γ_0², of which the product of corrected kernels has more.
        arrays["kernel"] = found["kernel"][saved]
        return arrays, made.states, {"solver": "leading order in γ_0²"}
    evidence: dict = {"solver": "static kernel"}
    if on_grid(made):
        evidence["accuracy"] = _accuracy_of_grids(made, saved, test_targets)
    return _static(made, saved), made.states, evidence


def _accuracy_of_grids(made: Setting, saved, test_targets) -> dict[str, float]:
    """The error of all grids together, from their spread, if their errors are independent, as they are at a kink."""
    each = [_static(made, saved, slice(r, r + 1)) for r in range(GRIDS)]
    named = [x | losses(made.loss, x.pop("f")[saved], test_targets) for x in each]
    factor = float(stdtrit(GRIDS - 1, 0.975))
    return {
        name: factor * float(np.max(mean_and_error([x[name] for x in named])[1], initial=0.0))
        for name in named[0]
    }


def _static(made: Setting, saved, grids=slice(None)) -> dict[str, np.ndarray]:
    """All observables of a kernel that stays as it is at the start."""
    start, n, C = initial_kernels(made, grids), len(saved), made.outputs
    f = static_kernel(made, start.kernel)
    Phi = np.broadcast_to(
        start.Phi[1:, None, :, None], (made.depth, n, made.points, n, made.points)
    )
    G = np.einsum("lma,cd,t,s->ltmcsad", start.G[:-1], np.eye(C), np.ones(n), np.ones(n))
    return {"f": f, "Phi": Phi, "G": G} | _summaries(made, Phi, G)


def _summaries(made: Setting, Phi, G) -> dict:
    """The equal-time kernels: NTK, alignment and movement."""
    n = Phi.shape[1]
    now = np.arange(n)
    equal = Phi[:, now, :, now].transpose(1, 0, 2, 3)
    gradients = G[:, now, :, :, now].transpose(1, 0, 2, 3, 4, 5)
    return {"kernel": tangent_kernel(made, equal, gradients)} | kernel_summaries(
        equal, made.loss.targets
    )


def tangent_kernel(made: Setting, Phi, G) -> np.ndarray:
    """K_μc,αc' = Σ_{ℓ=0}^L G^{ℓ+1} Φ^ℓ from equal-time kernels Φ (L, n, p, p), G (L, n, p, C, p, C)."""
    n, p, C = Phi.shape[1], made.points, made.outputs
    inputs = np.broadcast_to(made.K, (1, n, p, p))
    below = np.concatenate([inputs, Phi[:-1]]) + made.bias
    kernel = np.einsum("ltmcad,ltma->tmcad", G, below)
    return kernel + Phi[-1][:, :, None, :, None] * np.eye(C)[None, None, :, None]


def _sampled(problem, method: SampledLayers, made: Setting, saved, seed, report):
    """Batches of particles or of sampled layers."""
    seeds = np.random.SeedSequence(seed).spawn(method.batches)
    if made.depth == 1 and isinstance(method, KernelEvolution):
        run, evidence = _particle_batches(problem, method, made, saved, seeds)
    else:
        run, evidence = _deep_batches(problem, method, made, saved, seeds)
    results = in_threads(run, method.batches, report)
    reached = min(result["reached"] for result in results)
    count = int(np.sum(saved < reached))
    batches = {"f": np.stack([result["f"] for result in results])}
    for name in results[0]:
        if name not in ("reached", "f", "preactivation"):
            batches[name] = np.stack([_first(name, result[name], count) for result in results])
    arrays = {"preactivation": results[0]["preactivation"][:, :count]}
    evidence |= {"samples": method.samples, "batches": method.batches}
    return arrays, batches, reached, evidence


def _first(name: str, values, count: int):
    """The first `count` recorded states of an observable."""
    if name in ("alignment", "movement"):
        return values[:, :count]
    if name == "kernel":
        return values[:count]
    second = {"Phi": 3, "A": 3, "G": 4, "B": 4}[name]
    return np.take(values[:, :count], range(count), axis=second)


def _particle_batches(problem, method: SampledLayers, made: Setting, saved, seeds):
    training = problem.training
    steps = made.states - 1
    eta = np.asarray(rates(training, training.steps), dtype=float)[:steps]
    rule = TrainingRule(eta, training.momentum, training.weight_decay, training.noise)
    dimensions = covariance_root(made.K + made.bias, rank=True).shape[1] + made.outputs
    if method.samples < 4 * dimensions:
        allowed = f"must be at least {4 * dimensions}, for particles in {dimensions} dimensions"
        raise ProblemError(f"{type(method).__name__}.samples", method.samples, allowed)
    needed = 8.0 * 2 * method.samples * made.points * (len(saved) * (2 + made.outputs) + 12)
    require_memory(
        workers(method.batches) * needed, f"{steps} steps of particles", "use fewer samples"
    )

    def run(index: int, advance):
        entropy = int(seeds[index].generate_state(1)[0])
        quadrature = quasi_random_rule(dimensions, method.samples, 1, entropy).replicate(0)
        rng = np.random.default_rng(seeds[index])
        found = move(made, rule, quadrature, saved, rng, advance)
        Phi, G = (gram(x, weights=found.weights)[None] for x in (found.phi, found.g))
        samples = found.h[None, ..., :PREACTIVATIONS]
        result = {"f": found.f, "Phi": Phi, "G": G, "preactivation": samples}
        return result | _summaries(made, Phi, G) | {"reached": found.reached}

    return run, {"solver": "particles, quasi-random"}


def _check_stein(method: SampledLayers, made: Setting) -> None:
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


def _deep_batches(problem, method: SampledLayers, made: Setting, saved, seeds):
    stein = _uses_stein(method, problem.network)
    n, p, C, L = made.states, made.points, made.outputs, made.depth
    rows = float(n * p)
    needed = 8.0 * L * (method.samples * rows * (5 + 3 * C) + rows**2 * (2 + 4 * C + C * C))
    require_memory(
        workers(method.batches) * needed,
        f"{n - 1} steps of {p} points",
        "use fewer samples or steps",
    )

    def run(index: int, advance):
        if isinstance(method, AlternatingIteration):
            found = alternate(
                made,
                method.samples,
                seeds[index],
                advance,
                stein,
                method.damping,
                method.change,
                method.iterations,
                method.precision,
            )
        else:
            independent = isinstance(method, GradientIndependence)
            found = sweep(
                made, method.samples, seeds[index], advance, stein, independent, method.precision
            )
        kept = saved[saved < found.reached]
        Phi = np.stack([layer.Phi[kept][:, :, kept] for layer in found.layers])
        G = np.stack([layer.G[kept][:, :, :, kept] for layer in found.layers])
        result = {
            "f": found.f,
            "Phi": Phi,
            "G": G,
            "A": np.stack([layer.A[kept][:, :, kept] for layer in found.layers]),
            "B": np.stack([layer.B[kept][:, :, :, kept] for layer in found.layers]),
            "preactivation": np.stack(
                [np.stack([layer.h[t][:, :PREACTIVATIONS] for t in kept]) for layer in found.layers]
            ),
        }
        return result | _summaries(made, Phi, G) | {"reached": found.reached}

    responses = "stein" if stein else f"adjoint, {method.precision} precision"
    return run, {"solver": "sampled layers", "responses": responses}
