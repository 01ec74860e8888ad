"""Networks trained on real examples against the theory of their spectrum; and on examples of a known spectrum."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.statistics import mean_and_error

STEPS = [0, 1, 3, 10, 30, 60]


def problem_on(covariance, examples: int, width: int = 200) -> ld.Problem:
    return ld.Problem(
        ld.DeepLinear(depth=1, width=width, richness=1.0),
        ld.Dataset(ld.LinearMap(covariance), examples=examples),
        ld.GradientDescent(learning_rate=0.5, steps=STEPS[-1]),
    )


def deviations(covariance, examples: int, seeds: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean of the networks minus theory, relative to the theory, and its standard error."""
    problem = problem_on(covariance, examples)
    theory = ld.solve(problem, save_at=STEPS)
    runs = ld.simulate(problem, len(covariance.arrays()[0]), seeds, save_at=STEPS)
    found = {}
    for name in ("test_loss", "train_loss"):
        mean, error = mean_and_error(runs[name].values)
        scale = theory[name].values
        found[name] = (mean / scale - 1, error / scale)
    return found


def synthetic(n: int, D: int, sigma: float) -> ld.Examples:
    """Gaussian examples of a known power law."""
    rng = np.random.default_rng(1)
    lam, w = ld.PowerLaw(capacity=1.2, source=0.6, modes=D).arrays()
    x = rng.standard_normal((n, D)) * np.sqrt(lam)
    return ld.Examples(x, x @ w[0] + sigma * rng.standard_normal(n))


def test_networks_on_examples_of_a_known_spectrum_follow_its_theory():
    """Within 3.5 errors (12 looks), and 1/P + 1/N of the loss for the finite number of examples and units.

    The theory is that of the spectrum estimated from all 3000 examples.
    """
    for relative, error in deviations(synthetic(3000, 30, 0.5), examples=150, seeds=12).values():
        assert np.all(np.abs(relative) < 3.5 * error + 1 / 150 + 1 / 200)


def test_a_theory_that_forgets_what_is_unexplained_is_noticed():
    examples = synthetic(3000, 30, 0.5)
    lam, w = examples.arrays()
    wrong = ld.Spectrum(lam, w[0])
    runs = ld.simulate(problem_on(examples, 150), 30, 6, save_at=STEPS)
    theory = ld.solve(problem_on(wrong, 150), save_at=STEPS)
    mean, error = mean_and_error(runs["test_loss"].values)
    assert abs(mean[-1] - theory["test_loss"].values[-1]) > 10 * error[-1]


@pytest.mark.slow
@pytest.mark.parametrize("examples", [300, 900])
def test_networks_on_digits_follow_the_theory_of_their_spectrum(examples):
    """Odd or even, 1797 images: within 3.5 errors, and 2 % of the loss for inputs that are not Gaussian.

    The 2 % are measured, not derived; docs/how-to/my-own-data.md states them.
    """
    datasets = pytest.importorskip("sklearn.datasets")
    X, digit = datasets.load_digits(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    data = ld.Examples(X / np.sqrt(X.var(axis=0).sum()), np.where(digit % 2, 1.0, -1.0))
    for relative, error in deviations(data, examples, seeds=30).values():
        assert np.all(np.abs(relative) < 3.5 * error + 0.02)
    gaussian = deviations(data.estimated, examples, seeds=30)
    for relative, error in gaussian.values():
        assert np.all(np.abs(relative) < 3.5 * error + 1 / 200 + 1 / examples)
