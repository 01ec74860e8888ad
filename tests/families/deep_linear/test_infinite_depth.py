"""Infinite depth: the layer-time equations against a plain transcription, finite depths, exact limits, more nodes."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest

import learndyn as ld
from learndyn.core.former_arrays import from_version_1
from learndyn.core.record import Record
from learndyn.core.theory import theory_for
from learndyn.families.deep_linear import node_refinement
from learndyn.families.deep_linear.limit_numbers import limit_numbers
from tests import problems
from tests.families.deep_linear import plain_infinite_depth

POPULATION, DATASET = (
    ld.Population(ld.LinearMap()),
    ld.Dataset(ld.LinearMap(), ratio=1.4, noise=0.4),
)
STREAM = ld.Stream(ld.LinearMap(), noise=0.3, batch_ratio=0.8)
DATA = [POPULATION, DATASET, STREAM]
SPECTRUM = ld.Spectrum([1.0, 0.5, 0.2], [1.0, -0.5, 2.0])
TWO_OUTPUTS = ld.Spectrum([1.0, 0.5, 0.2], [[1.0, -0.5, 2.0], [0.3, 1.0, -1.0]])
problem = partial(
    problems.deep_linear,
    depth=math.inf,
    width=0.6,
    richness=0.8,
    skip=ld.ScaledSkip(1.0),
    data=POPULATION,
    rate=0.02,
    steps=12,
)


def near_the_edge(rate, **options):
    return problem(
        rate=rate, steps=30, skip=ld.ScaledSkip(1.25), width=1.0, richness=1.0, **options
    )


@pytest.mark.slow
def test_the_loss_near_the_edge_of_stability_is_right_and_its_accuracy_is_stated():
    """The value is that of 24 nodes; networks of depth 128, 256 and 512 extrapolate to 0.07194, in 1/depth."""
    theory = ld.solve(near_the_edge(0.0215))
    assert float(theory["test_loss"][-1]) == pytest.approx(0.07199110813, rel=1e-9)
    assert theory.evidence["accuracy"]["test_loss"] < 1e-8
    coarse, fine = theory.evidence["nodes"]
    assert coarse < fine < 24


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
@pytest.mark.parametrize("centered", [False, True])
def test_a_plain_transcription_of_the_equations_gives_the_same(data, centered):
    """Whole matrices, no increments, another family of nodes, and iteration over all rows at once."""
    alpha = getattr(data, "ratio", None) or getattr(data, "batch_ratio", None) or 1.0
    plain = plain_infinite_depth.solve(
        beta0=1.1, nu=0.6, gamma=0.8, eta=0.02, steps=8, mode=data.kind, alpha=alpha,
        sigma=data.noise, centered=centered, nodes=14,
    )  # fmt: skip
    theory = ld.solve(
        problem(rate=0.02, steps=8, skip=ld.ScaledSkip(1.1), data=data, centered=centered)
    )
    np.testing.assert_allclose(theory["test_loss"], plain["test_loss"], rtol=1e-10)
    for name in ("C_h", "C_g"):
        for tau, node in ((0.0, 0), (1.0, -1)):
            found = theory[name].sel(tau=tau, output=0, output2=0)
            expected = plain[name][node]
            np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    # ⟨h g⟩ at equal times does not depend on τ.
    np.testing.assert_allclose(
        plain["overlap"], plain["overlap"][:1] * np.ones((14, 1)), atol=1e-10
    )


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
@pytest.mark.parametrize("centered", [False, True])
def test_overlap_of_forward_and_backward_fields_is_conserved_along_the_layer_time(data, centered):
    """⟨h(t) g(t)⟩ at all nodes, from the library's own functions at a few more nodes than it takes."""
    made, steps, gamma = problem(data=data, centered=centered), 12, 0.8
    rows = _rows(made, 12)
    F = rows.pairs[1:, 5]
    # In increments, g(t) = g̃(0) + γ_0 g̃(t) for t > 0.
    overlap = F[:, :, 0] + gamma * np.einsum("ltt->lt", F) * (np.arange(steps + 1) > 0)
    np.testing.assert_allclose(overlap, np.broadcast_to(overlap[0], overlap.shape), atol=1e-9)


def _rows(made, nodes):
    """The finished row recursion with so many nodes."""
    kept = []

    def functions(found, *others):
        kept.append(found)
        return original(found, *others)

    original = node_refinement.RowObservables
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_refinement, "RowObservables", functions)
        _solve_with_nodes(made, nodes)
    return kept[0]


def _solve_with_nodes(made, nodes):
    saved = np.arange(made.training.steps + 1)
    return node_refinement._solve_with_nodes(
        made, limit_numbers(made, 64), nodes, saved, lambda done: None
    )


def deep_limit(made, depths=(32, 64, 128)) -> dict:
    """Observables extrapolated in 1/depth from finite networks with β² = exp(β_0²/n) − 1, n = depth − 1 blocks."""
    blocks = np.asarray(depths)
    curves = []
    for n in depths:
        skip = math.sqrt(math.expm1(made.network.skip.beta0**2 / n))
        finite = _replaced(made, depth=n + 1, skip=skip)
        curves.append(ld.solve(finite, ld.Rows()))
    x = 1.0 / blocks
    weights = [np.prod([b / (b - a) for b in x if b != a]) for a in x]
    names = [name for name in curves[0].observables if "layer" not in curves[0][name].dims]
    return {
        name: sum(w * curve[name].values for w, curve in zip(weights, curves, strict=True))
        for name in names
    }


def _replaced(made, **fields):
    return dataclasses.replace(made, network=dataclasses.replace(made.network, **fields))


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (DATASET, {"outputs": 2, "momentum": 0.5}),
        (STREAM, {"outputs": 2, "weight_decay": 0.3, "centered": True}),
        (POPULATION, {"momentum": 0.7, "weight_decay": 0.2}),
        (ld.Dataset(ld.LinearMap(SPECTRUM), examples=9), {"width": 12, "weight_decay": 0.1}),
        (ld.Stream(ld.LinearMap(TWO_OUTPUTS), batch=5), {"width": 12, "outputs": 2}),
        (DATASET, {"width": math.inf, "centered": True}),
        (DATASET, {"richness": 1e-4, "centered": True}),
        (STREAM, {"parameterization": "ntk"}),
    ],
    ids=str,
)
def test_large_finite_depths_extrapolate_to_it(data, options):
    """Losses, decomposition, and functions without a layer: the extrapolation leaves an error of order 1/n³."""
    made = problem(steps=10, data=data, **options)
    theory = ld.solve(made)
    for name, expected in deep_limit(made).items():
        found = theory[name].values
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=2e-5 * max(np.abs(expected).max(), 1e-3), err_msg=name
        )


def test_a_schedule_extrapolates_too():
    schedule = ld.ExponentialDecay(0.03, 0.2)
    made = problem(rate=schedule, steps=10, data=DATASET)
    expected = deep_limit(made)["test_loss"]
    np.testing.assert_allclose(ld.solve(made)["test_loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
def test_finite_depths_approach_it_at_first_order(data):
    """With β_0/√L, and with β² = exp(β_0²/n) − 1: the deviation halves when the depth doubles, up to the next order."""
    limit = ld.solve(problem(rate=0.01, steps=15, data=data))["test_loss"]
    for skip in (lambda L: ld.ScaledSkip(1.0), lambda L: math.sqrt(math.expm1(1.0 / (L - 1)))):
        made = [problem(rate=0.01, steps=15, data=data, depth=L, skip=skip(L)) for L in (48, 96)]
        deviation = [float(abs(ld.solve(one)["test_loss"] - limit).max()) for one in made]
        assert deviation[0] / deviation[1] == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.kind)
@pytest.mark.parametrize("centered", [False, True])
def test_without_branches_it_is_one_hidden_layer(data, centered):
    deep = ld.solve(problem(skip=ld.ScaledSkip(0.0), data=data, centered=centered))
    plain = ld.solve(problem(data=data, centered=centered, depth=1))
    for name in plain.observables:
        if "layer" not in plain[name].dims:
            scale = max(float(np.abs(plain[name]).max()), 1e-3)
            np.testing.assert_allclose(deep[name], plain[name], rtol=0, atol=1e-11 * scale)


def test_initial_values():
    """C_g(τ) = exp(β_0²(1 − τ)), C_v = 1 + exp(β_0²)/(νγ_0²), C_h(0) = C_v + exp(β_0²)/(νγ_0)² on the population."""
    beta0, nu, gamma = 1.3, 0.7, 0.9
    theory = ld.solve(problem(skip=ld.ScaledSkip(beta0), width=nu, richness=gamma))
    accuracy = theory.evidence["accuracy"]["C_g"]
    C_g = np.exp(beta0**2 * (1 - theory["tau"]))
    start = {"step": 0, "step2": 0, "output": 0, "output2": 0}
    np.testing.assert_allclose(theory["C_g"].sel(start), C_g, rtol=0, atol=accuracy)
    C_v = 1 + math.exp(beta0**2) / (nu * gamma**2)
    assert theory["C_v"].sel(start).item() == pytest.approx(C_v, rel=1e-9)
    C_h = C_v + math.exp(beta0**2) / (nu * gamma) ** 2
    assert theory["C_h"].sel(start | {"tau": 0}).item() == pytest.approx(C_h, rel=1e-9)


@pytest.mark.parametrize("beta0", [0.5, 1.1, 1.6])
def test_lazy_wide_network_has_the_known_kernel(beta0):
    """(1 − η𝒦)^2t with 𝒦 = (2 + β_0²) exp(β_0²); richness changes it by O(γ_0²)."""
    kernel = (2 + beta0**2) * math.exp(beta0**2)
    rate = 0.4 / kernel
    theory = ld.solve(
        problem(
            rate=rate,
            steps=15,
            skip=ld.ScaledSkip(beta0),
            width=math.inf,
            richness=1e-5,
            centered=True,
        ),
        save_at=15,
    )
    expected = (1 - 0.4) ** (2 * theory["step"])
    np.testing.assert_allclose(theory["test_loss"], expected, rtol=0, atol=1e-8)


HONEST = [
    (beta0, fraction, data, centered)
    for beta0 in (0.5, 1.0, 1.5, 2.0)
    for fraction in (0.15, 0.4)
    for data in DATA
    for centered in (False, True)
]


def true_and_stated(beta0, fraction, data, centered) -> dict[str, tuple[float, float]]:
    """`errors_of` at a rate in parts of 1/𝒦."""
    kernel = (2 + beta0**2) * math.exp(beta0**2)
    rate = fraction / kernel
    return errors_of(
        problem(
            rate=rate,
            steps=20,
            skip=ld.ScaledSkip(beta0),
            data=data,
            centered=centered,
            width=1.0,
            richness=1.0,
        )
    )


def errors_of(made) -> dict[str, tuple[float, float]]:
    """For every observable the error against twice the nodes, and the stated one."""
    theory = ld.solve(made)
    best = _solve_with_nodes(made, 2 * theory.evidence["nodes"][1]).arrays
    assert theory.diverged_at is None
    found = {}
    for name, stated in theory.evidence["accuracy"].items():
        found[name] = float(np.abs(theory[name].values - best[name]).max()), stated
    return found


@pytest.mark.parametrize(("beta0", "fraction", "data", "centered"), HONEST[::5], ids=str)
def test_the_stated_accuracy_holds_against_twice_the_nodes(beta0, fraction, data, centered):
    for name, (error, stated) in true_and_stated(beta0, fraction, data, centered).items():
        assert error <= stated, name


@pytest.mark.parametrize(
    ("rate", "centered"),
    [(0.0215, False), (0.03, False), (0.0155, True), (0.0178, True), (0.03, True)],
)
def test_the_stated_accuracy_holds_near_the_edge_of_stability(rate, centered):
    """The best rates are 0.0211 uncentred and 0.0156 centred, the largest stable one of the latter 0.0307."""
    for data in DATA:
        made = near_the_edge(rate, data=data, centered=centered)
        for name, (error, stated) in errors_of(made).items():
            assert error <= stated, (data, name)


@pytest.mark.slow
@pytest.mark.parametrize(("beta0", "fraction", "data", "centered"), HONEST, ids=str)
def test_the_stated_accuracy_holds_everywhere_and_is_not_absurd(beta0, fraction, data, centered):
    """The stated accuracy of the test loss is below 1e-6 of its scale, exp(β_0²)."""
    found = true_and_stated(beta0, fraction, data, centered)
    for name, (error, stated) in found.items():
        assert error <= stated, name
    assert found["test_loss"][1] < 1e-6 * math.exp(beta0**2)


@pytest.mark.parametrize("rate", [0.1, 1.0, 100.0])
def test_a_training_that_diverges_gives_the_curve_up_to_there(rate):
    theory = ld.solve(near_the_edge(rate))
    deep = ld.solve(near_the_edge(rate, depth=256))
    assert theory.diverged_at is not None
    assert deep.diverged_at is not None
    assert len(theory["step"]) == theory.diverged_at
    # Violent divergence is not followed to the end: nodes lose it a few steps before a finite network overflows.
    assert deep.diverged_at - 3 <= theory.diverged_at <= deep.diverged_at + 1
    loss = theory["test_loss"].values
    assert np.isfinite(loss).all()
    # At depth 256 the deviation is of the order of 1/256 and grows with the loss.
    both = min(len(loss), 4, len(deep["step"]))
    np.testing.assert_allclose(loss[:both], deep["test_loss"].values[:both], rtol=0.1)


def test_a_training_that_diverges_before_the_first_recorded_step_has_no_curve():
    theory = ld.solve(near_the_edge(1.0), save_at=[20, 30])
    assert theory.diverged_at == 20
    assert theory["test_loss"].size == 0


@pytest.mark.slow
@pytest.mark.parametrize("centered", [False, True])
def test_rates_do_not_depend_on_where_the_search_starts(centered):
    found = [ld.largest_stable_rate(near_the_edge(rate, centered=centered)) for rate in (1e-3, 3.0)]
    made = near_the_edge(0.01, centered=centered)
    found += [ld.largest_stable_rate(made, low=low, high=high) for low, high in ((0.01, 0.5), (0.2, 0.3))]  # fmt: skip
    np.testing.assert_allclose(found, found[0], rtol=2e-3)
    best = [ld.best_rate(near_the_edge(rate, centered=centered)).rate for rate in (1e-3, 0.3)]
    assert best[0] == pytest.approx(best[1], rel=3e-3)


@pytest.mark.slow
def test_the_best_rate_continues_that_of_finite_depths():
    """0.134, 0.039 and 0.025 at L = 2, 8 and 32; 0.021 at infinite depth."""
    best = [ld.best_rate(near_the_edge(0.02, depth=L)).rate for L in (2, 8, 32, math.inf)]
    np.testing.assert_allclose(best, [0.134, 0.0388, 0.0249, 0.0211], rtol=5e-3)


def test_the_edge_of_stability_is_noted_and_layer_times_label_the_functions():
    theory = ld.solve(near_the_edge(0.0178, centered=True))
    assert theory.evidence["edge_of_stability"] is not None
    assert "edge of stability" in theory.evidence["warnings"][0]
    for name in ("C_h", "C_g", "R_hr", "R_gu"):
        assert theory[name].dims == ("tau", "step", "output", "step2", "output2")
    np.testing.assert_allclose(theory["tau"], np.linspace(0, 1, 9))


def test_a_file_of_the_first_version_keeps_its_layer_times():
    """Version 0.1 left out axes of length one."""
    theory = ld.solve(problem(steps=4))
    old = theory.data.squeeze(["output", "output2"], drop=True)
    for array in old.values():
        array.attrs["units"] = "1"
    found = from_version_1(old, theory_for(theory.problem), theory.problem)
    for name in theory.observables:
        assert found[name].dims == theory[name].dims
        np.testing.assert_array_equal(found[name], theory[name])
        assert "units" not in found[name].attrs


def test_progress_rises_to_one():
    reported = []
    made = near_the_edge(0.02)
    ld.LayerNodes().solve(made, Record.of(made.training), 0, reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 1.0


def test_too_few_nodes_are_not_returned(monkeypatch):
    monkeypatch.setattr(node_refinement, "NODE_COUNTS", (3, 4))
    with pytest.raises(ld.NotConverged, match="4 nodes of the layer time do not resolve"):
        ld.solve(problem(rate=0.003, steps=30, skip=ld.ScaledSkip(2.0)))


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 1e5}))
    with pytest.raises(ld.NotEnoughMemory, match="nodes of the layer time"):
        ld.solve(problem())


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (ld.Innovation(), "method = 'Innovation': must be LayerNodes for an infinitely deep"),
        (ld.Rows(), "method = 'Rows': must be LayerNodes"),
    ],
)
def test_what_it_cannot_do_is_refused(method, words):
    with pytest.raises(ld.ProblemError, match=words):
        ld.solve(problem(), method)


def test_its_method_is_refused_at_finite_depth():
    with pytest.raises(ld.ProblemError, match="method = 'LayerNodes': must be Rows or Innovation"):
        ld.solve(problem(depth=3), ld.LayerNodes())
    feedforward = problem(depth=3, skip=None)
    with pytest.raises(
        ld.ProblemError, match="must be one of Rows, Innovation, Panels for this problem"
    ):
        ld.solve(feedforward, ld.LayerNodes())


def test_its_gradient_is_refused():
    with pytest.raises(ld.NoTheory, match="residual"):
        ld.trace(problem())
