"""`LimitNumbers`: the numbers of a problem that enter the limit equations of a deep linear network."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from learndyn.families.deep_linear.network import label_noise
from learndyn.problem.problem import Problem
from learndyn.problem.supplies import Dataset, Stream

DATASET, STREAM, POPULATION = range(3)
"""The supplies of data, as compiled code knows them."""
MOST_MODES = 64
"""Spectra of up to so many different eigenvalues are not grouped, unless the user asks for that."""
RULE = (
    "training.learning_rate",
    "training.momentum",
    "training.weight_decay",
    "training.steps",
)
"""Fields that may change in the middle of training; all others have entered the averages taken so far."""


class LimitNumbers(NamedTuple):
    """The numbers that enter the limit equations, except for the training rule.

    - `data`: `DATASET`, `STREAM` or `POPULATION`
    - `gamma`: γ_0, the richness
    - `rho`: ρ_ℓ = N_{ℓ+1}/N_ℓ for ℓ = 1 … L−1, ρ_0 = N_1/N_L and ρ_L = 1
    - `inverse_width`: 1/ν_L (1/N_L if the data have a spectrum)
    - `inverse_data`: 1/α, 1/α_B or 0 (1/P, 1/B or 0 if the data have a spectrum)
    - `noise`: σ, the standard deviation of the label noise
    - `centered`: whether the initial function is subtracted
    - `outputs`: the number of outputs c
    - `lam`: λ_k, the eigenvalues of the input modes k
    - `omega`: ω_k, the weights of the modes
    - `gram`: ⟨w*_c w*_c'⟩, the Gram matrix of the targets in every mode
    - `distinct`: the number of different eigenvalues that the modes stand for
    - `branch`: β, or None without skip connections
    """

    data: int
    gamma: float
    rho: Float[np.ndarray, " layers"]
    inverse_width: float
    inverse_data: float
    noise: float
    centered: bool
    outputs: int
    lam: Float[np.ndarray, " modes"]
    omega: Float[np.ndarray, " modes"]
    gram: Float[np.ndarray, "modes outputs outputs"]
    distinct: int = 1
    branch: float | None = None

    @property
    def depth(self) -> int:
        """L: the number of hidden layers."""
        return len(self.rho) - 1

    @property
    def grouped(self) -> bool:
        """Whether a mode stands for several different eigenvalues."""
        return len(self.lam) < self.distinct

    @property
    def shows_modes(self) -> bool:
        """Whether modes are observables: of a spectrum, if each is an eigenvalue, or if there are too many of these."""
        return self.distinct > (1 if not self.grouped else MOST_MODES)


def limit_numbers(problem: Problem, bins: int) -> LimitNumbers:
    """The limit numbers of a problem; a spectrum of more than `bins` eigenvalues is grouped into `bins` modes."""
    network, data = problem.network, problem.data
    spectrum, N = problem.task.spectrum, network.widths
    # Layers that are all infinitely wide are taken to be equally wide.
    ratios = np.ones(len(N)) if np.isinf(N).any() else np.append(N[1:] / N[:-1], 1.0)
    first = 1.0 if np.isinf(N).any() else N[0] / N[-1]
    if spectrum is None:
        lam, omega, gram, distinct = np.ones(1), np.ones(1), np.eye(network.outputs)[None], 1
    else:
        lam, omega, gram = binned_spectrum(*spectrum.arrays(), bins=bins)
        eigenvalues = spectrum.arrays()[0]
        distinct = len(np.unique(eigenvalues[eigenvalues > 0]))
    kind, count = POPULATION, None
    if isinstance(data, Stream):
        kind, count = STREAM, data.batch_ratio or data.batch
    elif isinstance(data, Dataset):
        kind, count = DATASET, data.ratio or data.examples
    return LimitNumbers(
        data=kind,
        gamma=float(network.gamma),
        rho=np.concatenate([[first], ratios]),
        inverse_width=float(1 / N[-1]),
        inverse_data=1 / count if count else 0.0,
        noise=label_noise(problem),
        centered=network.centered,
        outputs=network.outputs,
        lam=lam,
        omega=omega,
        gram=gram,
        distinct=distinct,
        branch=network.branch,
    )


def binned_spectrum(
    eigenvalues: Float[np.ndarray, " K"], coefficients: Float[np.ndarray, "outputs K"], bins: int
) -> tuple[
    Float[np.ndarray, " modes"],
    Float[np.ndarray, " modes"],
    Float[np.ndarray, "modes outputs outputs"],
]:
    """Eigenvalues, multiplicities and mean target Gram matrices of at most `bins` groups of neighbouring modes.

    Modes are sorted by eigenvalue. Equal ones are one group; if that is not enough, group boundaries lie on a geometric
    grid of ranks, so the largest eigenvalues are not grouped. A group keeps its trace Σλ and its target power Σ λ w*w*.
    """
    order = np.argsort(-eigenvalues, kind="stable")
    lam, w = eigenvalues[order], coefficients[:, order]
    lam, w = lam[lam > 0], w[:, lam > 0]
    power = np.einsum("k,ck,dk->kcd", lam, w, w)
    edges = _edges(lam, bins)
    count = np.diff(edges).astype(float)
    mean = np.add.reduceat(lam, edges[:-1]) / count
    # The mean of equal eigenvalues is the eigenvalue, whatever the rounding.
    mean = np.clip(mean, lam[edges[1:] - 1], lam[edges[:-1]])
    gram = np.add.reduceat(power, edges[:-1], axis=0) / (count * mean)[:, None, None]
    return mean, count, gram


def _edges(lam: Float[np.ndarray, " K"], bins: int) -> Int[np.ndarray, " edges"]:
    """The boundaries of groups of eigenvalues, which are in descending order."""
    changes = np.flatnonzero(np.diff(lam)) + 1
    if len(changes) < bins:
        return np.concatenate([[0], changes, [len(lam)]])
    return _geometric_edges(len(lam), bins)


def _geometric_edges(modes: int, bins: int) -> Int[np.ndarray, " edges"]:
    """0 = e_0 < e_1 < … < e_n = modes with n ≤ bins and steps that grow with the rank."""
    if modes <= bins:
        return np.arange(modes + 1)
    largest_that_fits, count = np.array([modes]), bins
    while True:
        edges = np.unique(np.rint(np.geomspace(1, modes, count)).astype(int))
        if count == 1 or len(edges) > bins:
            return np.concatenate([[0], largest_that_fits])
        largest_that_fits, count = edges, count + 1
