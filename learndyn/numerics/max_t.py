"""Whether the largest of many correlated t-statistics is significant.

S samples (seeds) give a residual at each of many points (times, components).
At each point the statistic is Student's, t = max(|mean r| − a, 0)/(standard error), with S − 1
degrees of freedom; p₁ is the p-value of the largest. Points are correlated, and looking at many is
not as many independent looks. Their effective number n follows from a property of Gaussian
residuals of mean zero: their law is invariant under rotations in the S-dimensional space in which
a point is a vector x and a seed an axis. Given the vectors up to a rotation, |t| exceeds c at one
point with the chance that a random direction w falls into the double cap |cos ∠(w, x)| ≥
c/√(c² + S − 1), and anywhere with the chance p that w falls into the union of all points' caps. The
measure of the union is sampled cap by cap: p = (measure of a cap) × (number of caps) × (mean of
1/number of caps that cover the sample), whose relative error does not grow as p shrinks. n is
defined by p = 1 − (1 − p₁)ⁿ.

The rate of false alarms is then exact for Gaussian residuals and a = 0, whatever their correlations
and however few the seeds, and lower for a > 0. The eigenvalues of the sample correlation matrix
give no such test: S seeds show at most S − 1 of them, and counts of looks from them are too small.
References: Langsrud 2005 (rotation tests); Naiman and Priebe 2001 (the sampling).
"""

import numpy as np
from scipy.special import stdtr, stdtrit


def mean_and_error(residuals):
    """Mean over the seeds and its standard error."""
    return residuals.mean(axis=0), residuals.std(axis=0, ddof=1) / np.sqrt(len(residuals))


def max_t_test(residuals, allowance: float, level: float, draws: int = 2000):
    """The largest t-statistic of S × points `residuals`, its p-value and the number of looks.

    The equations are in the module's docstring. The number of looks, which depends weakly on t, is
    that at the largest t or, if that is smaller, at the t at which the verdict turns; there it is
    most reliable, and p above `level` is approximate. Every point must have a spread.
    """
    S, points = residuals.shape
    if points == 0:
        return 0.0, 1.0, 0.0
    mean, error = mean_and_error(residuals)
    largest = np.max(np.maximum(np.abs(mean) - allowance, 0.0) / error)
    # The bounds keep quantiles and logarithms finite.
    p_single = float(np.clip(2 * stdtr(S - 1, -largest), 1e-100, 1 - 1e-15))
    columns = residuals - np.clip(mean, -allowance, allowance)
    directions = columns / np.linalg.norm(columns, axis=0)
    # Far more points than draws can visit would cost time without changing the answer.
    draws = int(np.clip(4e7 / points, draws / 10, draws))
    looks = float(points)
    # The number of looks hardly depends on the threshold, so three rounds find where they meet.
    for _ in range(3):
        threshold = min(p_single, level / looks)
        looks = independent_looks(directions, threshold, draws)
        if threshold == p_single:
            break
    return float(largest), float(-np.expm1(looks * np.log1p(-p_single))), looks


def independent_looks(directions, p_single: float, draws: int) -> float:
    """n with 1 − (1 − p₁)^n = the measure of the union of double caps of measure p₁ each."""
    S, points = directions.shape
    rng = np.random.default_rng(0)
    centres = directions[:, np.arange(draws) * points // draws]
    edge = -stdtrit(S - 1, p_single / 2)
    t = -stdtrit(S - 1, p_single / 2 * (1 - rng.random(draws)))
    aside = rng.standard_normal((S, draws))
    aside -= centres * np.sum(centres * aside, axis=0)
    aside /= np.linalg.norm(aside, axis=0)
    samples = (t * centres + np.sqrt(S - 1) * aside) / np.hypot(t, np.sqrt(S - 1))
    cosine = edge / np.hypot(edge, np.sqrt(S - 1))
    # Blocks that stay in the cache, and too small for threads that would wait for each other.
    chunk = max(1, 2**18 // directions.size)
    covering = np.concatenate(
        [
            np.count_nonzero(np.abs(samples[:, i : i + chunk].T @ directions) >= cosine, axis=1)
            for i in range(0, draws, chunk)
        ]
    )
    union = p_single * points * np.mean(1 / np.maximum(covering, 1))
    union = min(max(union, p_single), 1 - 1e-12)
    return float(min(np.log1p(-union) / np.log1p(-p_single), points))
