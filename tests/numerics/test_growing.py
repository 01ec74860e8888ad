"""What is still random of a Gaussian matrix, and the directions that can be reached, against dense matrices."""

import numpy as np

from learndyn.numerics.growing import Basis, Reduction, Space
from learndyn.numerics.reachable import ReachableSpace, reach


def covariance(basis: Basis) -> np.ndarray:
    return basis.remaining(np.eye(basis.space.dimension))


def test_queries_and_reductions_change_the_covariance_as_they_should():
    """K → K − Kxx^⊤K/x^⊤Kx with a query x, K → U^⊤KU with a reduction, and K = 1 in a new direction."""
    rng, space = np.random.default_rng(0), Space()
    basis, K = Basis(space, 1e-10), np.zeros((0, 0))
    for fewer in (4, 5, 3):
        for _ in range(6):
            # Two directions for each query, so that something is left.
            space.reserve(2)
            space.add(0)
            space.add(0)
            basis.reserve(1)
            n = space.dimension
            K = np.block([[K, np.zeros((n - 2, 2))], [np.zeros((2, n - 2)), np.eye(2)]])
            x = np.zeros(space.capacity)
            x[:n] = rng.standard_normal(n)
            expected = K @ x[:n] / np.sqrt(x[:n] @ K @ x[:n])
            k = basis.reveal(x)
            assert k is not None
            np.testing.assert_allclose(k[:n], expected, atol=1e-12)
            K = K - np.outer(expected, expected)
            np.testing.assert_allclose(covariance(basis), K, atol=1e-12)
            # Nothing is left of x.
            assert basis.reveal(x) is None
        U = np.linalg.qr(rng.standard_normal((n, fewer)))[0]
        reduction = Reduction(U[None], [0] * fewer)
        basis.reduce(reduction)
        space.reduce(reduction)
        K = U.T @ K @ U
        np.testing.assert_allclose(covariance(basis), K, atol=1e-12)


def test_a_reduction_acts_on_each_mode_of_a_vector():
    rng = np.random.default_rng(1)
    columns = np.stack([np.linalg.qr(rng.standard_normal((5, 2)))[0] for _ in range(3)])
    reduction, x = Reduction(columns, [0, 0]), rng.standard_normal((4, 5, 3))
    found = reduction.apply(x.reshape(4, 15)).reshape(4, 2, 3)
    np.testing.assert_allclose(found, np.einsum("bdk,kde->bek", x, columns), atol=1e-14)
    # Missing coordinates are zeros.
    short = reduction.apply(x[:, :2].reshape(4, 6)).reshape(4, 2, 3)
    np.testing.assert_allclose(short, np.einsum("bdk,kde->bek", x[:, :2], columns[:, :2]))
    back = reduction.undo(found.reshape(4, 6))
    np.testing.assert_allclose(reduction.apply(back), found.reshape(4, 6), atol=1e-14)


def test_all_that_maps_reach_is_found_and_nothing_else():
    """A matrix with an invariant space of four dimensions out of nine, and a second space that sees two of them."""
    rng = np.random.default_rng(2)
    frame = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    blocks = np.zeros((9, 9))
    blocks[:4, :4], blocks[4:, 4:] = rng.standard_normal((4, 4)), rng.standard_normal((5, 5))
    M = frame @ blocks @ frame.T / 8
    N = rng.standard_normal((6, 2)) @ frame[:, :2].T / 8
    spaces = [ReachableSpace([np.arange(9)]), ReachableSpace([np.arange(3), np.arange(3, 6)])]
    seed = frame[:, :4] @ rng.standard_normal(4)
    maps = [(0, 0, lambda x: x @ M.T), (0, 1, lambda x: x @ N.T)]
    reach(spaces, [seed[None], np.zeros((0, 6))], maps, 1e-12)
    (found,) = spaces[0].directions
    np.testing.assert_allclose(found.T @ found, frame[:, :4] @ frame[:, :4].T, atol=1e-6)
    # Every part of the other space has its own two directions.
    for part, rows in zip(spaces[1].parts, spaces[1].directions, strict=True):
        image = np.linalg.qr(N[part] @ frame[:, :2])[0]
        np.testing.assert_allclose(rows.T @ rows, image @ image.T, atol=1e-6)
