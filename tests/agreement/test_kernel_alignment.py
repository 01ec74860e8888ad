"""The alignment of the tangent kernel with the task: theory against kernels of networks that were really trained.

The kernel of a network is made from derivatives of its outputs on fresh inputs. Averages over pairs of different inputs
are unbiased; over n inputs they have the standard error of independent trainings, each with its own inputs.
"""

import jax
import numpy as np
import pytest

import learndyn as ld
from tests import problems

PROBLEM = problems.late_learning(alpha=0.5, eps=0.3, ratio=3.0, overlap=0.3, time=20.0)
TIMES = [0.0, 5.0, 20.0]
INPUTS = 2000


def kernel_alignment(run, seed):
    """√N ⟨f*(x) K(x, x') f*(x')⟩/(⟨f*²⟩ √⟨K²⟩) from the derivatives of the network at all pairs of `INPUTS` inputs."""
    weights, task = run.weights, PROBLEM.data.task
    g, g_star = PROBLEM.network.activation, task.activation
    N = weights["W"].shape[1]
    x = np.random.default_rng(seed).standard_normal((INPUTS, N))
    with ld.float64():

        def output(W, one):
            return weights["v"] @ g(W @ one / np.sqrt(N))

        slopes = jax.vmap(jax.grad(output), (None, 0))(weights["W"], x)
        slopes = np.asarray(slopes).reshape(INPUTS, -1)
        y = np.asarray(g_star(x @ weights["W_star"].T / np.sqrt(N)) @ np.asarray(task.readout))
    K = slopes @ slopes.T
    np.fill_diagonal(K, 0.0)
    pairs = INPUTS * (INPUTS - 1)
    seen, size = y @ K @ y / pairs, np.sqrt(np.sum(K**2) / pairs)
    return np.sqrt(N) * seen / (np.mean(y**2) * size)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seeds"), [(100, 12), (400, 24)])
def test_the_kernel_of_trained_networks_is_aligned_as_predicted(size, seeds):
    """Within three standard errors and the terms of relative order 1/N in ⟨K²⟩ that the theory leaves out.

    These are at most Σ_b |…|² over the K + M = 3 directions of weights, of which each counts as 1/N.
    """
    theory = ld.solve(PROBLEM, ld.CausalSampling(samples=1024, batches=8), save_at=TIMES)
    measured = np.zeros((seeds, len(TIMES)))
    for seed in range(seeds):
        run = ld.start(PROBLEM, size=size, seed=seed)
        for number, time in enumerate(TIMES):
            run.advance(time)
            measured[seed, number] = kernel_alignment(run, (seed, number))
    mean, error = measured.mean(axis=0), measured.std(axis=0, ddof=1) / np.sqrt(seeds)
    expected = theory["kernel_alignment"].values
    assert np.all(np.abs(mean - expected) < 3 * error + 3 / size * expected)
    assert expected[-1] > 1.5 * expected[0]
