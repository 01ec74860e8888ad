"""Networks with homogeneous units and weight decay: which kernel represents the trained function.

With φ(ah) = aφ(h), one hidden layer and weight decay λ, weights remember the forces of the past only, and ⟨wφ(h)⟩ =
⟨hg⟩ = γ_0 f. So at every t, exactly, with the impulse response k(t, s) = η(1 − ηλ)^(t−1−s) and d(t) = (1 − ηλ)^t,

    2 f_x(t) = Σ_{s<t} k(t, s) Σ_α K_xα(t, s) E_α(s) + d(t) (⟨w(0)φ_x(t)⟩ + ⟨h_x(0)g_x(t)⟩)/γ_0.

At the end of training f = k(x)ᵀ(K + 2λ)⁻¹ y (2λP for the mean of losses) follows, with the mean of K(t, s) over late
pairs of times. Deep linear networks come to rest, and the kernel of the last state will do (`test_linear.py`). A relu
network does not: neurons slide along the kinks of their points, h_μ = 0, and their slopes flip every other step,
however small the steps are.
"""

import functools

import numpy as np
import pytest

import learndyn as ld

POINTS = ld.Points.random(4, 6, seed=1, test_points=2)
P, DECAY = 4, 0.3
COARSE, FINE = 0.1, 0.03
"""Learning rates for the sum of losses; with the mean, 4 times the rate and a quarter of the decay are the same."""


@functools.cache
def trained(rate, steps, window, loss="sum"):
    """The last `window` states of particles after `steps` steps."""
    scale = P if loss == "mean" else 1
    rule = ld.GradientDescent(scale * rate, steps=steps, weight_decay=DECAY / scale, loss=loss)
    problem = ld.Problem(ld.Wide(1, "relu", 1.0), POINTS, rule)
    saved = list(range(steps - window + 1, steps + 1))
    return ld.solve(problem, ld.SampledLayers(samples=1024, batches=2), save_at=saved)


def one_output(array):
    """An observable of the only hidden layer and output."""
    sizes = {axis: 0 for axis in ("layer", "output", "output2") if axis in array.dims}
    return array.isel(sizes).values


def outputs(found):
    """f of all points (states × points)."""
    both = (one_output(found[name]) for name in ("prediction", "test_prediction"))
    return np.concatenate(list(both), axis=1)


def two_time_kernel(found):
    """K(t, s) = G^1 K^x + Φ^1 of all points (states, points, states, points), and a bound of its standard error."""
    inputs = POINTS.kernel()[None, :, None]
    error = np.abs(inputs) * one_output(found.standard_error("G"))
    error = error + one_output(found.standard_error("Phi"))
    return one_output(found["G"]) * inputs + one_output(found["Phi"]), error


def miss(kernel, f, ridge):
    """The root mean square difference of k(x)ᵀ(K + ridge)⁻¹ y from f, relative to that of f."""
    y = POINTS.targets.ravel()
    represented = kernel[:, :P] @ np.linalg.solve(kernel[:P, :P] + ridge * np.eye(P), y)
    return np.linalg.norm(represented - f) / np.linalg.norm(f)


def misses(rate, steps, window, loss="sum"):
    """Misses of the kernel of the last state, and of the mean over pairs of late times."""
    found = trained(rate, steps, window, loss)
    K, _ = two_time_kernel(found)
    f, decay = outputs(found), found.problem.training.weight_decay
    ridge = 2 * decay * (P if loss == "mean" else 1)
    return miss(K[-1, :, -1], f[-1], ridge), miss(K.mean(axis=(0, 2)), f.mean(axis=0), ridge)


def flips(rate, steps, window):
    """The share of preactivations that change their sign in a step."""
    signs = np.sign(trained(rate, steps, window)["preactivation"].values[0])
    return np.mean(signs[1:] != signs[:-1])


def test_outputs_are_the_forces_of_the_past_times_the_two_time_kernel():
    """Exact but for what is left of the initial weights, and for the product of two means over two batches."""
    rate, steps = 0.2, 250
    found = trained(rate, steps, steps + 1)
    (K, K_error), f = two_time_kernel(found), outputs(found)
    E = POINTS.targets.ravel() - f[:-1, :P]
    E_error = one_output(found.standard_error("prediction"))[:-1]
    k = rate * (1 - rate * DECAY) ** np.arange(steps)[::-1]
    past = np.einsum("s,msa,sa->m", k, K[-1, :, :-1, :P], E)
    # Of two batches, the mean of products is the product of means ± that of standard errors.
    batches = np.einsum("s,msa,sa->m", k, K_error[-1, :, :-1, :P], E_error)
    Phi, G = (one_output(found[name])[-1, :, -1].diagonal() for name in ("Phi", "G"))
    # ⟨w(0)φ⟩² ≤ ⟨w(0)²⟩⟨φ²⟩, and the same for h(0), with ⟨h(0)²⟩ = K^x; their sampled values are close to the limit's.
    start = (1 - rate * DECAY) ** steps * (np.sqrt(Phi) + np.sqrt(G * POINTS.kernel().diagonal()))
    bound = batches + 2 * start
    assert np.all(np.abs(2 * f[-1] - past) < bound)
    assert np.max(bound) < 1e-3


@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_the_last_kernel_does_not_represent_a_relu_network_and_the_mean_over_late_pairs_does(loss):
    last, mean = misses(COARSE, 500, 100, loss)
    assert last > 3e-3
    assert last > 5 * mean


@pytest.mark.slow
def test_in_the_limit_of_small_steps_the_mean_kernel_is_right_and_the_last_one_is_not():
    """A neuron that slides is off the kink by the length of a step, so that the mean over pairs misses by O(η)."""
    last, mean = misses(COARSE, 500, 100)
    last_fine, mean_fine = misses(FINE, 1500, 200)
    # What is left of the drift of f over the window and of the next order: half as much.
    assert COARSE / FINE / 1.5 < mean / mean_fine < COARSE / FINE * 1.5
    assert last < 1.5 * last_fine
    assert last_fine > 5 * mean_fine


@pytest.mark.slow
def test_neurons_slide_along_their_kinks_at_any_rate():
    coarse, fine = flips(COARSE, 500, 100), flips(FINE, 1500, 200)
    assert coarse > 0.05
    # 512 neurons, of which one in six slides: a standard error of less than a tenth.
    assert abs(fine / coarse - 1) < 0.3
