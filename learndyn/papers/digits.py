"""Ten images of two classes, in place of those of CIFAR-10 in the paper on wide networks."""

from importlib import resources

import numpy as np

from learndyn.problem.points import Points


def ten_digits() -> Points:
    """Five images each of the digits 3 (y = −1) and 8 (y = 1), of mean 0 and |x|² = D = 64.

    They are the first ones of scikit-learn's `load_digits`, and come with the package.
    """
    file = resources.files("learndyn.papers") / "data" / "digits.csv"
    rows = np.loadtxt(file.read_text(encoding="utf-8").splitlines(), delimiter=",")
    x, digit = rows[:, :-1], rows[:, -1]
    x = x - x.mean(axis=1, keepdims=True)
    return Points(x / x.std(axis=1, keepdims=True), np.where(digit == 8, 1.0, -1.0))
