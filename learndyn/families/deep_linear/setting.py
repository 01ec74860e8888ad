"""The numbers that enter the limit equations of a deep linear network, from a problem."""

from typing import NamedTuple

import numpy as np

from learndyn.problem.supplies import Dataset, Stream

DATASET, STREAM, POPULATION = range(3)
RULE = (
    "training.learning_rate",
    "training.momentum",
    "training.weight_decay",
    "training.steps",
)
"""What may change in the middle of training; all else is part of all averages so far."""


class Setting(NamedTuple):
    """What the solvers need besides the training rule; symbols as in `equations.md` of the docs.

    `rho[ℓ]` = N_{ℓ+1}/N_ℓ for ℓ = 1 … L−1, `rho[0]` = N_1/N_L, `rho[L]` = 1; `inverse_width` = 1/ν_L; `inverse_data` =
    1/α, 1/α_B or 0. Input modes k have eigenvalue `lam[k]` (λ), weight `omega[k]` (ω) and target Gram matrix
    `gram[k]` = ⟨w*_c w*_c'⟩. `grouped` says whether a mode stands for several different eigenvalues.
    `branch` is β, or None without skip connections.
    """

    data: int
    gamma: float
    rho: np.ndarray
    inverse_width: float
    inverse_data: float
    noise: float
    centered: bool
    outputs: int
    lam: np.ndarray
    omega: np.ndarray
    gram: np.ndarray
    grouped: bool = False
    branch: float | None = None

    @property
    def depth(self) -> int:
        """L."""
        return len(self.rho) - 1


def setting(problem, bins: int) -> Setting:
    """The setting of a problem; a spectrum of more than `bins` eigenvalues is grouped."""
    network, data = problem.network, problem.data
    spectrum, N = problem.task.spectrum, network.widths
    # Layers that are all infinitely wide are taken to be equally wide.
    ratios = np.ones(len(N)) if np.isinf(N).any() else np.append(N[1:] / N[:-1], 1.0)
    first = 1.0 if np.isinf(N).any() else N[0] / N[-1]
    if spectrum is None:
        lam, omega, gram = np.ones(1), np.ones(1), np.eye(network.outputs)[None]
    else:
        lam, omega, gram = binned(*spectrum.arrays(), bins=bins)
    kind, count = POPULATION, None
    if isinstance(data, Stream):
        kind, count = STREAM, data.batch_ratio or data.batch
    elif isinstance(data, Dataset):
        kind, count = DATASET, data.ratio or data.examples
    positive = 0 if spectrum is None else np.count_nonzero(spectrum.arrays()[0])
    return Setting(
        data=kind,
        gamma=float(network.gamma),
        rho=np.concatenate([[first], ratios]),
        inverse_width=float(1 / N[-1]),
        inverse_data=1 / count if count else 0.0,
        noise=float(data.noise),
        centered=network.centered,
        outputs=network.outputs,
        lam=lam,
        omega=omega,
        gram=gram,
        grouped=bool(len(lam) < positive),
        branch=network.branch,
    )


def binned(eigenvalues, coefficients, bins: int):
    """Eigenvalues, multiplicities and mean target Gram matrices of at most `bins` groups of neighbouring modes.

    Modes are sorted by eigenvalue; group boundaries lie on a geometric grid of ranks, so the largest eigenvalues stay
    alone. A group keeps its trace Σλ and its target power Σ λ w*w*.
    """
    order = np.argsort(-eigenvalues, kind="stable")
    lam, w = eigenvalues[order], coefficients[:, order]
    lam, w = lam[lam > 0], w[:, lam > 0]
    power = np.einsum("k,ck,dk->kcd", lam, w, w)
    edges = _geometric_edges(len(lam), bins)
    count = np.diff(edges).astype(float)
    mean = np.add.reduceat(lam, edges[:-1]) / count
    gram = np.add.reduceat(power, edges[:-1], axis=0) / (count * mean)[:, None, None]
    return mean, count, gram


def _geometric_edges(modes: int, bins: int) -> np.ndarray:
    """0 = e_0 < e_1 < … < e_n = modes with n ≤ bins and steps that grow with the rank."""
    if modes <= bins:
        return np.arange(modes + 1)
    found, count = np.array([modes]), bins
    while True:
        edges = np.unique(np.rint(np.geomspace(1, modes, count)).astype(int))
        if count == 1 or len(edges) > bins:
            return np.concatenate([[0], found])
        found, count = edges, count + 1
