"""Quasi-random standard normals, with any number of columns.

Sobol' points fill few dimensions much more evenly than random ones do, but a set of them has a fixed number of
dimensions, while a process in time needs one more at every step. Latin supercube sampling (Owen 1998) puts sets side by
side, each with its own scrambling and its rows in random order: an average over S rows is as accurate as that over
Sobol' points in terms that depend on the columns of one set, and no worse than a random one in terms that join several.
"""

import numpy as np

from learndyn.errors import ProblemError

GROUP = 64
"""Columns of one set of Sobol' points."""
KEY = 0x4E4F524D
"""Keeps the groups' seeds apart from the children that a caller spawns from the same seed sequence."""


class QuasiNormals:
    """`samples` rows of an unbounded matrix of standard normals.

    Column k depends on the seed sequence, on `samples` (a power of two) and on k only, however many columns are asked
    for and in whichever order. Columns are drawn in groups when they are first needed, and stored. Without `permuted`
    the rows of a group are in the order of Sobol': both halves are Sobol' points, too. Then use one group only.
    """

    def __init__(self, samples: int, seed_sequence: np.random.SeedSequence, permuted: bool = True):
        whole = isinstance(samples, int | np.integer) and not isinstance(samples, bool)
        if not whole or samples < 1 or samples & (samples - 1):
            raise ProblemError("samples", samples, "must be a power of two")
        self.samples = int(samples)
        self._seed, self._permuted = seed_sequence, permuted
        self._groups: dict[int, np.ndarray] = {}

    def columns(self, first: int, last: int) -> np.ndarray:
        """The columns `first` … `last` − 1, as an array (samples, last − first)."""
        if not 0 <= first <= last:
            raise ProblemError("columns", (first, last), "must be 0 ≤ first ≤ last")
        normals = np.empty((self.samples, last - first))
        for number in range(first // GROUP, -(-last // GROUP)):
            start = number * GROUP
            low, high = max(first, start), min(last, start + GROUP)
            normals[:, low - first : high - first] = self._group(number)[
                :, low - start : high - start
            ]
        return normals

    def _group(self, number: int) -> np.ndarray:
        """The columns from number · GROUP on."""
        if number not in self._groups:
            self._groups[number] = self._drawn(number)
        return self._groups[number]

    def _drawn(self, number: int) -> np.ndarray:
        # Imported here, because it is slow and may not be needed.
        from scipy.special import ndtri
        from scipy.stats import qmc

        seed = np.random.SeedSequence(
            self._seed.entropy, spawn_key=(*self._seed.spawn_key, KEY, number)
        )
        scramble, order = (np.random.default_rng(child) for child in seed.spawn(2))
        points = qmc.Sobol(GROUP, scramble=True, rng=scramble)
        uniform = points.random_base2(self.samples.bit_length() - 1)
        # Sobol' points may touch 0, where the inverse normal is infinite.
        normals = ndtri(np.clip(uniform, 2.0**-53, 1 - 2.0**-53))
        # The first group is permuted too, so that it can stand beside that of another seed sequence.
        return normals[order.permutation(self.samples)] if self._permuted else normals
