"""`solve`: find the theory of a problem, run it, wrap the result."""

import functools
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from learndyn.errors import LearndynError, NoTheory
from learndyn.numerics.precision import float64
from learndyn.part import traced, whole
from learndyn.progress import progress_bar
from learndyn.solution import Solution
from learndyn.symmetry import with_symmetry
from learndyn.theory import Curves, choose, theory_for


def solve(problem, method=None, *, save_at=None, seed: int = 0, progress: bool = False) -> Solution:
    """The learning curve of `problem` in the limit of a large network.

    `method` says how, where the theory has a choice. `save_at` is a number of times, an array of times
    (`linear_times`, `log_times`), or None for 201 equally spaced ones. `seed` matters only to methods that draw
    samples. Raises `NoTheory` where none is known and `NotConverged` where the solver gave up; a training that
    diverges is not an error: the curve ends there and `diverged_at` is set.
    """
    theory = theory_for(problem)
    method = choose(method, theory.methods, "method")
    seed = whole(0)(seed, "seed")
    start = time.perf_counter()
    with float64(), progress_bar(progress, f"solving {theory.name}") as report:
        curves = theory.solve(problem, method, save_at, seed, report)
        curves = with_symmetry(theory, problem, method, save_at, seed, curves)
    evidence = {
        "kind": "theory",
        "theory": theory.name,
        "exactness": theory.exactness,
        "reference": theory.reference,
        "method": method.to_dict(),
        "seed": seed,
        "wall_time": time.perf_counter() - start,
        "versions": versions(),
    } | curves.evidence
    return Solution(as_dataset(curves), problem, evidence, True, curves.diverged_at)


def trace(problem, method=None, *, save_at=None) -> dict[str, jax.Array]:
    """The observables of `solve` as JAX arrays, by a pure function of the numbers in the problem.

    For `jax.grad`, `jax.jit` and `jax.vmap`: build the problem inside the function that is transformed, with traced
    numbers for its fields, and transform it inside `with jax.enable_x64(True):`. No evidence is gathered and divergence
    is not caught.
    """
    if jnp.result_type(float) != jnp.float64 and any(map(traced, jax.tree.leaves(problem))):
        raise LearndynError(
            "derivatives of a learning curve need 64-bit numbers; wrap the call that transforms `trace` in "
            "`with jax.enable_x64(True):`"
        )
    theory = theory_for(problem)
    if theory.trace is None:
        raise NoTheory(f"the theory {theory.name} is not a JAX function and cannot be traced")
    with float64():
        return theory.trace(problem, choose(method, theory.methods, "method"), save_at)


def as_dataset(curves: Curves) -> xr.Dataset:
    """The curves as labelled arrays."""
    return xr.Dataset(*variables_of(curves))


def variables_of(curves: Curves) -> tuple[dict[str, xr.Variable], dict[str, xr.Variable]]:
    """The observables of curves, with their standard errors, and the labels of their axes."""
    arrays: dict[str, xr.Variable] = {}
    sizes: dict[str, int] = {}
    for name, observable in curves.observables.items():
        values = np.asarray(observable.values)
        attributes: dict = {"long_name": observable.long_name, "units": observable.units}
        if not observable.judged:
            attributes["judged"] = 0
        arrays[name] = xr.Variable(observable.dims, values, attributes)
        sizes |= dict(zip(observable.dims, values.shape, strict=True))
        if observable.error is not None:
            error = np.asarray(observable.error)
            if error.shape != values.shape:
                raise ValueError(
                    f"the error of {name} has the shape {error.shape}: not that of its values"
                )
            words = {
                "long_name": f"standard error of {observable.long_name}",
                "units": observable.units,
                "standard_error_of": name,
            }
            arrays[f"{name}_standard_error"] = xr.Variable(observable.dims, error, words)
    given = {axis: curves.coordinates.get(axis, np.arange(n)) for axis, n in sizes.items()}
    labels = {axis: xr.Variable((axis,), np.asarray(values)) for axis, values in given.items()}
    usual = {"time": "time t = steps / N", "step": "training step"}[curves.axis]
    words = {"long_name": curves.axis_words or usual}
    labels[curves.axis] = xr.Variable((curves.axis,), np.asarray(curves.times), words)
    return arrays, labels


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the libraries that the numbers depend on."""
    return {name: version(name) for name in ("learndyn", "jax", "diffrax", "numba", "numpy")}
