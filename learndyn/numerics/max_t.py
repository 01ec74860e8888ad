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

If the reference that the samples are compared with was sampled too, with standard errors e, the statistic is

    u = max(|mean r| − a, 0)/√(s² + e²),    s the standard error of the mean over the seeds,

in place of t. The further errors are assumed Gaussian and independent of the seeds. At one point,
Student's law with S − 1 degrees of freedom then bounds the tails of u (Mickey and Brown 1966), so
p₁ errs on the safe side: far, if e is larger than s and the seeds are few. The looks are those of

    u_j = f_j t_j + √(1 − f_j²) z_j,    f = s/√(s² + e²),

with t_j from rotations and standard normals z_j that are taken as independent from point to point:
how they are correlated is not known, and independent ones are the most looks. A large u_j = c is
split as if t_j were Gaussian, t_j = f c on average; a heavy-tailed t_j is larger and carries more
of the other points along, so that the looks, too, err on the safe side.

References: Langsrud 2005 (rotation tests); Naiman and Priebe 2001 (the sampling); Mickey and Brown
1966 (the bound).
"""

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

from learndyn.numerics.statistics import mean_and_error


def max_t_test(
    residuals: Float[np.ndarray, "S points"],
    allowance: float,
    level: float,
    draws: int = 2000,
    further: Float[np.ndarray, " points"] | None = None,
) -> tuple[float, float, float]:
    """The largest t-statistic of S × points `residuals`, its p-value and the number of looks.

    The equations are in the module's docstring. The number of looks, which depends weakly on t, is
    that at the largest t or, if that is smaller, at the t at which the verdict turns; there it is
    most reliable, and p above `level` is approximate. `further` are the standard errors e that
    do not show in the spread of the seeds, one per point. Every point must have a spread or an e.
    """
    S, points = residuals.shape
    if points == 0:
        return 0.0, 1.0, 0.0
    mean, spread = mean_and_error(residuals)
    error = spread if further is None else np.hypot(spread, further)
    share = spread / error
    largest = np.max(np.maximum(np.abs(mean) - allowance, 0.0) / error)
    # The bounds keep quantiles and logarithms finite.
    p_single = float(np.clip(2 * stdtr(S - 1, -largest), 1e-100, 1 - 1e-15))
    columns = residuals - np.clip(mean, -allowance, allowance)
    norms = np.linalg.norm(columns, axis=0)
    directions = columns / np.where(norms > 0, norms, 1.0)
    # Far more points than draws can visit would cost time without changing the answer.
    most = (4e7 if further is None else 1e7) / points
    draws = int(np.clip(most, draws / 10, draws))
    looks = float(points)
    # The number of looks hardly depends on the threshold, so three rounds find where they meet.
    for _ in range(3):
        threshold = min(p_single, level / looks)
        looks = independent_looks(directions, threshold, draws, None if further is None else share)
        if threshold == p_single:
            break
    return float(largest), float(-np.expm1(looks * np.log1p(-p_single))), looks


def independent_looks(
    directions: Float[np.ndarray, "S points"],
    p_single: float,
    draws: int,
    share: Float[np.ndarray, " points"] | None = None,
) -> float:
    """n with 1 − (1 − p₁)^n = the measure of the union of double caps of measure p₁ each.

    With `share`, f of the module's docstring, it is the union of the events |u| ≥ c instead.
    """
    S, points = directions.shape
    rng = np.random.default_rng(0)
    chosen = np.arange(draws) * points // draws
    centres = directions[:, chosen]
    edge = -stdtrit(S - 1, p_single / 2)
    t = -stdtrit(S - 1, p_single / 2 * (1 - rng.random(draws)))
    aside = rng.standard_normal((S, draws))
    aside -= centres * np.sum(centres * aside, axis=0)
    aside /= np.linalg.norm(aside, axis=0)
    if share is not None:
        f = share[chosen]
        t = f * t + np.sqrt(1 - f**2) * rng.standard_normal(draws)
    samples = (t * centres + np.sqrt(S - 1) * aside) / np.hypot(t, np.sqrt(S - 1))
    cosine = edge / np.hypot(edge, np.sqrt(S - 1))
    # Blocks that stay in the cache, and too small for threads that would wait for each other.
    chunk = max(1, 2**18 // directions.size)
    covering = []
    for i in range(0, draws, chunk):
        cosines = samples[:, i : i + chunk].T @ directions
        if share is None:
            inside = np.abs(cosines) >= cosine
        else:
            sines = np.sqrt(np.maximum(1 - cosines**2, 1e-30))
            z = rng.standard_normal(cosines.shape)
            u = share * np.sqrt(S - 1) * cosines / sines + np.sqrt(1 - share**2) * z
            inside = np.abs(u) >= edge
            inside[np.arange(len(u)), chosen[i : i + chunk]] = True
        covering.append(np.count_nonzero(inside, axis=1))
    union = p_single * points * np.mean(1 / np.maximum(np.concatenate(covering), 1))
    union = min(max(union, p_single), 1 - 1e-12)
    return float(min(np.log1p(-union) / np.log1p(-p_single), points))
