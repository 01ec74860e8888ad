"""The law of a lazily revealed matrix."""

import copy

import numpy as np
import pytest

from learndyn.programs.affine import aligned, padded
from learndyn.programs.gaussian import Gaussian
from learndyn.programs.sites import Axes, Entries, Samples

SIZES = [(8, 8, 2, 3), (9, 5, 2, 3), (5, 9, 3, 1), (6, 10, 0, 2), (10, 6, 3, 0)]
"""n, m, products asked of W and of W^⊤."""


class Fixed:
    """In the place of a random generator: hands out stored rows."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        assert shape == self.rows.shape
        return self.rows


def asked(n: int, m: int, r: int, q: int) -> Gaussian:
    """A matrix that was asked r products with W and q with W^⊤, in turn."""
    rng = np.random.default_rng(n + 10 * m)
    matrix = Gaussian(Entries("rows", n), Entries("cols", m), n / m, rng, 1e-12, 0.0)
    for k in range(max(r, q)):
        if k < r:
            matrix.apply(matrix.initial(), rng.standard_normal((1, m)))
        if k < q:
            matrix.apply_transposed(matrix.initial(), rng.standard_normal((1, n)))
    # Directions whose products were not asked constrain nothing.
    matrix.coordinates(rng.standard_normal((1, n)), transposed=True, images=False)
    matrix.coordinates(rng.standard_normal((1, m)), images=False)
    return matrix


def answer(matrix: Gaussian, x: np.ndarray, noise: np.ndarray, transposed: bool) -> np.ndarray:
    """The next product if the innovation's normals are `noise`."""
    matrix = copy.deepcopy(matrix)
    matrix.rng = Fixed(noise)  # pyright: ignore[reportAttributeAccessIssue]
    product = matrix.apply_transposed if transposed else matrix.apply
    return product(matrix.initial(), x[None])[0][0]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("n", "m", "r", "q"), SIZES)
def test_next_product_has_the_conditional_law_of_the_whole_matrix(n, m, r, q, transposed):
    matrix = asked(n, m, r, q)
    # Row-major vec W: W u = Y are the rows (1 ⊗ u^⊤), W^⊤v = X the rows (v^⊤ ⊗ 1); W has the covariance 1/m.
    known = [np.kron(np.eye(n), u[None]) for u in matrix.U.rows[: matrix.U.imaged]]
    known += [np.kron(v[None], np.eye(m)) for v in matrix.V.rows[: matrix.V.imaged]]
    values = np.concatenate([matrix.images().ravel(), matrix.images(transposed=True).ravel()])
    A = np.concatenate(known)
    inverse = np.linalg.pinv(A, rcond=1e-10)
    x = np.random.default_rng(1).standard_normal(n if transposed else m)
    ask = np.kron(x[None], np.eye(m)) if transposed else np.kron(np.eye(n), x[None])
    mean = ask @ inverse @ values
    covariance = ask @ (np.eye(n * m) - inverse @ A) @ ask.T / m
    size = m if transposed else n
    # Two innovations: that of the direction whose product was not asked, and that of x.
    center = answer(matrix, x, np.zeros((2, size)), transposed)
    noises = np.eye(2 * size).reshape(2 * size, 2, size)
    spread = np.array([answer(matrix, x, noise, transposed) - center for noise in noises])
    # All is algebra of a few small arrays: rounding.
    np.testing.assert_allclose(center, mean, atol=1e-12)
    np.testing.assert_allclose(spread.T @ spread, covariance, atol=1e-12)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["entries", "samples", "axes"])
def test_identity_orthonormality_and_answers_hold_after_every_product(kind, ratio):
    rng = np.random.default_rng(3)
    seeds = np.random.SeedSequence(1).spawn(2)
    sites = {
        "entries": lambda: [Entries("rows", round(40 * ratio)), Entries("cols", 40)],
        "samples": lambda: [Samples("rows", 256, seeds[0]), Samples("cols", 256, seeds[1])],
        "axes": lambda: [Axes("rows"), Axes("cols")],
    }[kind]()
    rows, cols = sites
    matrix = Gaussian(rows, cols, ratio, rng, 1e-10, 0.0)
    z, said = rows.normals(2, rng), []
    for _ in range(6):
        x, _ = matrix.apply_transposed(matrix.initial(), z)
        said.append((matrix.apply_transposed, rows, z, x))
        # Nonlinear vectors, but in coordinates, where there are none.
        features = x if kind == "axes" else np.tanh(x)
        y, _ = matrix.apply(matrix.initial(), features)
        said.append((matrix.apply, cols, features, y))
        z = y if kind == "axes" else np.sin(y) + 0.1
        assert matrix.identity() < 1e-12
        # What was answered once is answered again.
        for product, site, vectors, before in said:
            now, _ = product(matrix.initial(), padded(vectors, site.length))
            np.testing.assert_allclose(*aligned(now, before), atol=1e-12)
        for directions, site in ((matrix.U, cols), (matrix.V, rows)):
            gram = site.scale * directions.rows @ directions.rows.T
            np.testing.assert_allclose(gram, np.eye(directions.count), atol=1e-13)
    assert matrix.ranks == (12, 12)


def test_even_innovations_are_orthogonal_to_all_that_is_known_of_their_dimension():
    rng = np.random.default_rng(0)
    site = Samples("neurons", 256, np.random.SeedSequence(2))
    known = np.concatenate([np.ones((1, 256)), site.normals(3, rng)])
    directions = np.tanh(known[1:] + known[2:3])
    site.note(directions)
    fresh = site.innovations(70, directions, rng)
    np.testing.assert_allclose(fresh @ np.concatenate([known, directions]).T / 256, 0, atol=1e-13)
    np.testing.assert_allclose(fresh @ fresh.T / 256, np.eye(70), atol=1e-13)


def known_directions(count: int) -> tuple[Gaussian, np.ndarray]:
    """A matrix of 60 columns that was asked `count` rows x, which drops next to nothing."""
    rng = np.random.default_rng(0)
    matrix = Gaussian(Entries("rows", 60), Entries("cols", 60), 1.0, rng, 1e-16, 0.0)
    x = rng.standard_normal((count, 60))
    matrix.apply(matrix.initial(), x)
    return matrix, x


def test_a_direction_that_is_rounding_is_left_out():
    matrix, x = known_directions(50)
    again = np.random.default_rng(1).standard_normal((20, 50)) @ x
    matrix.apply(matrix.initial(), again)
    assert matrix.ranks == (50, 0)


def test_a_short_new_part_becomes_an_orthonormal_direction():
    matrix, x = known_directions(10)
    rng = np.random.default_rng(1)
    matrix.apply(
        matrix.initial(), rng.standard_normal((3, 10)) @ x + 1e-10 * rng.standard_normal((3, 60))
    )
    assert matrix.ranks == (13, 0)
    matrix.U.check()
    assert matrix.U.orthonormality < 1e-14


@pytest.mark.parametrize("transposed", [False, True])
def test_what_is_too_short_for_a_direction_is_answered_as_far_as_it_is_forced(transposed):
    """ρ⟨v, W x⟩ = ⟨W^⊤v, x⟩ for every v that was asked, also if nothing new is opened for x."""
    rng = np.random.default_rng(4)
    matrix = Gaussian(Entries("rows", 60), Entries("cols", 40), 1.5, rng, 0.5, 0.0)
    known = rng.standard_normal((3, 60)), rng.standard_normal((3, 40))
    answers = [
        matrix.apply_transposed(matrix.initial(), known[0])[0],
        matrix.apply(matrix.initial(), known[1])[0],
    ]
    ranks = matrix.ranks
    if transposed:
        z = known[0].sum(0) + 0.3 * rng.standard_normal((1, 60))
        x = matrix.apply_transposed(matrix.initial(), z)[0]
        forward, backward = answers[1] @ z.T * 1.5 / 60, known[1] @ x.T / 40
    else:
        x = known[1].sum(0) + 0.3 * rng.standard_normal((1, 40))
        z = matrix.apply(matrix.initial(), x)[0]
        forward, backward = known[0] @ z.T * 1.5 / 60, answers[0] @ x.T / 40
    assert matrix.ranks == ranks
    np.testing.assert_allclose(forward, backward, atol=1e-12)
