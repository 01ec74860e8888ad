"""What holds for every deep linear problem: causality, symmetry, positivity, both methods alike."""

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import learndyn as ld
from tests import problems

STEPS = 10
DATA = st.sampled_from(
    [
        ld.Dataset(ld.LinearMap(), ratio=0.7, noise=0.3),
        ld.Dataset(ld.LinearMap(), ratio=2.5),
        ld.Stream(ld.LinearMap(), noise=0.3, batch_ratio=0.8),
        ld.Population(ld.LinearMap()),
    ]
)
NETWORKS = st.builds(
    ld.DeepLinear,
    depth=st.integers(1, 3),
    width=st.floats(0.3, 4.0),
    richness=st.floats(0.1, 2.0),
    outputs=st.integers(1, 2),
    centered=st.booleans(),
)
RATES = st.lists(st.floats(0.0, 0.06), min_size=STEPS, max_size=STEPS)
problem = partial(problems.deep_linear, steps=STEPS)


def matrix(array):
    """A function of two steps with composite indices."""
    n = array.sizes["step"] * array.sizes["output"]
    return array.values.reshape(n, n)


@settings(max_examples=25)
@given(NETWORKS, DATA, RATES, st.integers(0, STEPS - 1), st.floats(0.0, 0.06))
def test_a_rate_does_not_change_the_past(network, data, rates, step, other):
    """Rates from `step` on act on the states after it; before, everything is the same to the last bit."""
    changed = [*rates[:step], *([other] * (STEPS - step))]
    curves = [
        ld.solve(problem(network=network, data=data, rate=ld.PerStep(r)), ld.Rows())
        for r in (rates, changed)
    ]
    for name in curves[0].observables:
        one, two = (curve[name].sel(step=slice(0, step)) for curve in curves)
        if "step2" in one.dims:
            one, two = one.sel(step2=slice(0, step)), two.sel(step2=slice(0, step))
        np.testing.assert_array_equal(one, two, err_msg=name)


@settings(max_examples=25)
@given(NETWORKS, DATA, RATES, st.floats(0.0, 0.8), st.floats(0.0, 0.5))
def test_correlations_are_covariances_and_both_methods_agree(network, data, rates, beta, decay):
    made = problem(
        network=network, data=data, rate=ld.PerStep(rates), momentum=beta, weight_decay=decay
    )
    rows, basis = (ld.solve(made, method) for method in (ld.Rows(), ld.Innovation(tolerance=1e-13)))
    assert rows.diverged_at == basis.diverged_at
    if len(rows["step"]) == 0:
        return
    for name in basis.observables:
        if name == "alignment":
            continue
        scale = np.abs(rows[name]).max()
        np.testing.assert_allclose(rows[name], basis[name], rtol=0, atol=1e-8 * scale, err_msg=name)
    for name in ("C_v", "C_h0"):
        C = matrix(rows[name])
        np.testing.assert_allclose(C, C.T, atol=1e-12 * np.abs(C).max())
        assert np.linalg.eigvalsh(C)[0] > -1e-9 * np.abs(C).max()
    steps = np.arange(len(rows["step"]))
    future = steps[:, None] < steps
    for name in ("R_vu", "R_hr0"):
        R = rows[name].values
        assert np.all(np.abs(R.transpose(0, 2, 1, 3)[future]) == 0), name
