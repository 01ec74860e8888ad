"""The accuracies of deep linear networks: a grouped spectrum and the innovation basis, against what is exact."""

import numpy as np
import pytest

import learndyn as ld
from tests import problems
from tests.accuracy.measures import check_ratios, ratios

MODES = 200
RANK = np.arange(1.0, MODES + 1)
RNG = np.random.default_rng(1)
SPECTRA = {
    "slow power law": ld.PowerLaw(1.2, 0.6, MODES),
    "fast power law": ld.PowerLaw(2.0, 1.5, MODES),
    "exponential": ld.Spectrum(np.exp(-RANK / 40), np.ones(MODES)),
    "linear": ld.Spectrum(1 - RANK / 300, 1 / RANK),
    "random": ld.Spectrum(RNG.random(MODES), RNG.standard_normal(MODES)),
}


AMOUNTS = {
    "population": {},
    "dataset": {"examples": 100, "noise": 0.1},
    "stream": {"batch": 50, "noise": 0.1},
}


def structured(spectrum, supply: str) -> ld.Problem:
    eigenvalues, coefficients = spectrum.arrays()
    rate = min(0.3 / eigenvalues.max(), 2 / eigenvalues.sum(), 3 / (coefficients**2).sum())
    return problems.deep_linear(
        width=400,
        richness=1.0,
        spectrum=spectrum,
        supply=supply,
        rate=rate,
        steps=20,
        **AMOUNTS[supply],
    )


@pytest.mark.slow
def test_grouped_spectra():
    """The difference from a quarter of the bins is above the error of grouping, for smooth and for rough spectra.

    A third of it is left for a rough spectrum and a fifteenth for a smooth one: half the bins, or a third of the
    difference, would be below the error of the random spectrum.
    """
    found = []
    for spectrum in SPECTRA.values():
        for supply in ("population", "dataset", "stream"):
            problem = structured(spectrum, supply)
            exact = ld.solve(problem, ld.Rows(bins=MODES), save_at=5)
            assert exact.diverged_at is None
            for bins in (16, 48):
                found += ratios(ld.solve(problem, ld.Rows(bins=bins), save_at=5), exact)
    check_ratios(found, least=1e-2)


def test_grouping_states_its_accuracy_where_training_diverges():
    """A curve that ends at a divergence between recorded steps has an accuracy, too."""
    problem = structured(SPECTRA["exponential"], "population")
    wild = ld.Problem(problem.network, problem.data, ld.GradientDescent(2.0, steps=20))
    solution = ld.solve(wild, ld.Rows(bins=16), save_at=[0, 1, 20])
    assert solution.diverged_at == 20
    assert solution.evidence["accuracy"]["test_loss"] > 0


@pytest.mark.slow
def test_innovation_basis():
    """Its tolerance is above the distance to the row recursion: by less than a thousandfold where the basis is small.

    At 1e-6, rounding plays no part. Where training is at the edge of stability the factor of 40 is for the worst case.
    """
    found = []
    for depth, rate, richness in ((1, 0.1, 0.5), (1, 0.05, 1.0), (2, 0.1, 1.0), (2, 0.03, 2.0)):
        for data in (
            ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.2),
            ld.Population(ld.LinearMap()),
        ):
            network = ld.DeepLinear(depth=depth, width=2.0, richness=richness)
            problem = ld.Problem(network, data, ld.GradientDescent(rate, steps=60))
            exact = ld.solve(problem, ld.Rows(), save_at=13)
            rough = ld.solve(problem, ld.Innovation(tolerance=1e-6), save_at=13)
            found += ratios(rough, exact)
    check_ratios(found)
