"""Spectra, examples and points made of a user's arrays."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.errors import ProblemError


def drawn(n: int, D: int, sigma: float, outputs: int = 1, seed: int = 0):
    """Examples of a known power law, rotated and shifted; returns inputs, targets, λ_k and w*_k."""
    rng = np.random.default_rng(seed)
    lam, w = ld.PowerLaw(capacity=1.3, source=0.7, modes=D).arrays()
    w = w * rng.choice([-1, 1], (outputs, D))
    x = rng.standard_normal((n, D)) * np.sqrt(lam)
    rotation = np.linalg.qr(rng.standard_normal((D, D)))[0]
    y = x @ w.T + sigma * rng.standard_normal((n, outputs)) + 3.0
    return x @ rotation.T + 1.0, y[:, 0] if outputs == 1 else y, lam, w


def test_a_noiseless_linear_map_is_recovered_exactly():
    X, y, _, _ = drawn(n=60, D=8, sigma=0.0)
    spectrum = ld.Spectrum.from_data(X, y)
    centred = X - X.mean(axis=0)
    lam = np.linalg.eigvalsh(centred.T @ centred / 59)[::-1]
    np.testing.assert_allclose(spectrum.eigenvalues, lam, rtol=1e-10)
    # No noise, nothing taken off: λ_k w_k² sum to the variance of the targets.
    power = np.sum(spectrum.eigenvalues * spectrum.coefficients**2)
    assert power == pytest.approx(np.var(y, ddof=1), rel=1e-10)
    assert spectrum.unexplained == pytest.approx(0, abs=1e-10)
    assert spectrum.examples == 60


@pytest.mark.parametrize("outputs", [1, 3])
def test_estimates_lie_within_their_errors(outputs):
    """Forty datasets: means over them against the truth, in standard errors of these means."""
    sets, n, D, sigma = 40, 800, 12, 0.5
    estimates = []
    for seed in range(sets):
        X, y, lam, w = drawn(n, D, sigma, outputs, seed)
        estimates.append(ld.Spectrum.from_data(X, y))
    noise = np.array([s.unexplained**2 for s in estimates])
    assert abs(noise.mean() - sigma**2) < 4 * noise.std() / np.sqrt(sets)
    total = np.array([np.sum(s.arrays()[0] * s.arrays()[1] ** 2) for s in estimates])
    # Positive parts leave at most σ²/n for each mode; without shrinking all D·C of these would remain.
    bias = total.mean() - np.sum(lam * w**2)
    error = total.std() / np.sqrt(sets)
    assert -4 * error < bias < 4 * error + 0.5 * D * outputs * sigma**2 / n
    # Eigenvalues scatter as they say, to the 11 % to which 40 datasets show it (3 errors), the largest few unmixed.
    scatter = np.std([s.eigenvalues[0] for s in estimates], ddof=1)
    assert scatter == pytest.approx(lam[0] * np.sqrt(2 / n), rel=3 * 0.11)
    assert estimates[0].standard_errors()[0][0] == pytest.approx(
        estimates[0].eigenvalues[0] * np.sqrt(2 / n)
    )


def test_the_power_of_noise_is_taken_off():
    """Targets of noise alone: an estimate has λ_k w_k² = χ² σ²/n; less σ²/n, down to zero, its mean is 2φ(1) σ²/n."""
    n, D = 800, 12
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(40):
        spectrum = ld.Spectrum.from_data(rng.standard_normal((n, D)), rng.standard_normal(n))
        power = spectrum.eigenvalues * spectrum.coefficients**2
        seen.append(n * power.mean() / spectrum.unexplained**2)
    expected = 2 * np.exp(-0.5) / np.sqrt(2 * np.pi)
    # Without it the mean is 1, more than ten errors away.
    assert abs(np.mean(seen) - expected) < 4 * np.std(seen) / np.sqrt(40)


def test_without_centring_the_means_stay_in():
    X, y, _, _ = drawn(n=200, D=5, sigma=0.1)
    spectrum = ld.Spectrum.from_data(X, y, centered=False)
    np.testing.assert_allclose(spectrum.eigenvalues.sum(), np.sum(X**2) / 200, rtol=1e-10)


def test_dependent_inputs_have_a_mode_without_power():
    X, y, _, _ = drawn(n=100, D=5, sigma=0.1)
    spectrum = ld.Spectrum.from_data(np.column_stack([X, X.sum(axis=1)]), y)
    assert spectrum.eigenvalues[-1] == spectrum.coefficients[-1] == 0
    assert spectrum.unexplained == pytest.approx(ld.Spectrum.from_data(X, y).unexplained)


def test_a_power_law_is_found_within_its_error():
    for seed in range(3):
        X, y, _, _ = drawn(n=4000, D=60, sigma=0.3, seed=seed)
        fit = ld.Spectrum.from_data(X, y).power_law()
        assert abs(fit.capacity - 1.3) < 3 * fit.capacity_error
        assert abs(fit.source - 0.7) < 3 * fit.source_error
    assert "capacity 1.3" in str(fit)


def test_a_known_power_law_is_fitted_exactly_and_a_broken_one_has_a_large_error():
    lam, w = ld.PowerLaw(capacity=1.5, source=0.8, modes=400).arrays()
    fit = ld.Spectrum(lam, w[0]).power_law()
    assert fit.capacity == pytest.approx(1.5, abs=1e-9)
    # Means over groups of modes stand for their middle; that costs a little.
    assert fit.source == pytest.approx(0.8, abs=0.02)
    broken = ld.Spectrum(np.exp(-np.arange(1, 401) / 20), np.ones(400)).power_law()
    assert broken.capacity_error > 1


def test_too_few_modes_for_a_power_law():
    with pytest.raises(ProblemError, match="four groups of modes"):
        ld.Spectrum([1.0, 0.5, 0.2], [1.0, 1.0, 1.0]).power_law()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X[3, 0] == X, np.nan, X), y), "missing or infinite numbers in 1 row, the first"),
        (lambda X, y: (np.column_stack([X, np.ones(len(X))]), y), "the same in every example"),
        (lambda X, y: (X[:4], y[:4]), "fewer examples (4) than a covariance of 4 inputs needs (6)"),
        (lambda X, y: (X, np.where(y > 0, "cat", "dog")), "turn them into numbers first"),
        (lambda X, y: (X.tolist(), ["cat", "dog"] * 15), "holds words such as 'cat'"),
        (lambda X, y: (X, y[:-1]), "must have one row for each of the 29 targets"),
        (lambda X, y: (X[:, 0], y), "it has shape (30,)"),
        (lambda X, y: ([[1.0, 2.0], [3.0]], [1.0, 2.0]), "must be a matrix"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [ld.Spectrum.from_data, ld.Examples])
def test_bad_arrays_are_refused_in_a_sentence(make, change, message):
    X, y, _, _ = drawn(n=30, D=4, sigma=0.1)
    with pytest.raises(ProblemError) as error:
        make(*change(X, y))
    assert message in str(error.value)


def test_examples_survive_a_file(tmp_path):
    X, y, _, _ = drawn(n=30, D=4, sigma=0.1)
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=10),
        ld.Dataset(ld.LinearMap(ld.Examples(X, y)), examples=20),
        ld.GradientDescent(learning_rate=0.1, steps=2),
    )
    path = tmp_path / "mine.toml"
    problem.to_toml(path)
    assert ld.Problem.from_toml(path) == problem


def test_examples_cannot_be_streamed_and_some_must_be_left():
    X, y, _, _ = drawn(n=30, D=4, sigma=0.1)
    task = ld.LinearMap(ld.Examples(X, y))
    network, training = ld.DeepLinear(depth=1, width=10), ld.GradientDescent(0.1, steps=2)
    with pytest.raises(ProblemError, match="real examples come to an end"):
        ld.Problem(network, ld.Stream(task, batch=2), training)
    with pytest.raises(ProblemError, match="must be less than 30, the number of given examples"):
        ld.simulate(ld.Problem(network, ld.Dataset(task, examples=30), training), size=4)


def test_networks_learn_from_the_given_rows_and_are_tested_on_the_others():
    """At the start f = 0 (centred network), so both losses are mean squares of centred targets."""
    X, y, _, _ = drawn(n=30, D=4, sigma=0.4)
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=10, centered=True),
        ld.Dataset(ld.LinearMap(ld.Examples(X, y)), examples=20),
        ld.GradientDescent(learning_rate=0.1, steps=1),
    )
    run = ld.start(problem, size=4, seed=3)
    sample = run.sample(20)
    centred = y - y.mean()
    chosen = [int(np.argmin(np.abs(centred - label))) for label in sample["y"][:, 0]]
    assert len(set(chosen)) == 20
    np.testing.assert_allclose(sample["y"][:, 0], centred[chosen], atol=1e-12)
    inputs = X - X.mean(axis=0)
    # The rotation to the eigenvectors keeps all inner products.
    np.testing.assert_allclose(
        sample["x"] @ sample["x"].T, inputs[chosen] @ inputs[chosen].T, atol=1e-12
    )
    others = np.setdiff1d(np.arange(30), chosen)
    assert run.state["train_loss"].item() == pytest.approx(np.mean(centred[chosen] ** 2))
    assert run.state["test_loss"].item() == pytest.approx(np.mean(centred[others] ** 2))


def test_a_spectrum_from_few_examples_comes_with_a_warning():
    X, y, _, _ = drawn(n=50, D=10, sigma=0.4)
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=10),
        ld.Dataset(ld.LinearMap(ld.Spectrum.from_data(X, y)), examples=20),
        ld.GradientDescent(learning_rate=0.1, steps=1),
    )
    (warning,) = ld.solve(problem).evidence.warnings or []
    assert "rests on 50 examples of 10 inputs" in warning
    assert "45 %" in warning


def test_points_from_data():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 6)) * 7 + 2, rng.choice([-1.0, 1.0], 50)
    points = ld.Points.from_data(X, y, count=10, seed=1, test_count=5)
    assert points.inputs.shape == (10, 6)
    assert points.test_inputs.shape == (5, 6)
    np.testing.assert_allclose(points.inputs.mean(axis=0), 0, atol=1e-12)
    assert np.mean(points.inputs**2) == pytest.approx(1)
    raw = ld.Points.from_data(X, y, count=10, seed=1, test_count=5, centered=False, scaled=False)
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in raw.all_inputs()]
    assert len(set(rows)) == 15
    np.testing.assert_array_equal(np.concatenate([raw.targets, raw.test_targets]), y[rows])
    assert points == ld.Points.from_data(X, y, count=10, seed=1, test_count=5)
    with pytest.raises(ProblemError, match=r"there are 50 examples, and 48 \+ 5 are asked for"):
        ld.Points.from_data(X, y, count=48, test_count=5)
    with pytest.raises(ProblemError, match="all the same"):
        ld.Points.from_data(X, y, count=1)


def test_a_picture_of_a_spectrum_has_points_and_fits():
    X, y, _, _ = drawn(n=4000, D=60, sigma=0.3)
    figure = ld.plot_spectrum(ld.Examples(X, y))
    left, right = figure.axes
    assert left.get_xlabel() == right.get_xlabel() == "mode k"
    labels = [label for panel in (left, right) for label in panel.get_legend_handles_labels()[1]]
    assert any(label.startswith("k^(−1.3") for label in labels)
    assert any(label.startswith("source") for label in labels)
    assert len(ld.plot_spectrum(ld.PowerLaw(1.5, 0.5, modes=50)).axes) == 2
    few = ld.plot_spectrum(ld.Spectrum([1.0, 0.5], [1.0, 1.0]))  # too few modes for a fit
    assert few.axes[0].get_legend() is None
    with pytest.raises(ld.LearndynError, match="must be a Spectrum"):
        ld.plot_spectrum("digits")  # pyright: ignore[reportArgumentType]
