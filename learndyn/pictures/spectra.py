"""Pictures of spectra: `plot_spectrum`."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.errors import LearndynError, ProblemError, shown
from learndyn.pictures.plotting import PANEL, Picture
from learndyn.pictures.style import CIRCLES, COLOURS, finish, legend_of
from learndyn.problem.examples import Examples
from learndyn.problem.spectra import Covariance, Spectrum


def plot_spectrum(spectrum: Covariance) -> Figure:
    """Draw the eigenvalues λ_k and the power λ_k w*_k² of the task along them, with the power laws fitted to both.

    Bars are standard errors, where the spectrum was estimated. The dotted line is the power σ²/n that a mode without
    any would seem to have.
    """
    if not isinstance(spectrum, Covariance):
        raise LearndynError(
            f"cannot plot {shown(spectrum)}: it must be a Spectrum, PowerLaw or Examples"
        )
    if isinstance(spectrum, Examples):
        spectrum = spectrum.estimated
    lam, w = spectrum.arrays()
    exact = spectrum if isinstance(spectrum, Spectrum) else Spectrum(lam, w)
    k, power = np.arange(1, len(lam) + 1), (lam * w**2).sum(axis=0)
    errors = exact.standard_errors()
    power_errors = 2 * np.sqrt((lam**2 * w**2 * errors[1] ** 2).sum(axis=0))
    figure = Picture(figsize=(2 * PANEL[0], PANEL[1]), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw(left, k, lam, errors[0], COLOURS[0])
    _draw(right, k, power, power_errors, COLOURS[1])
    if exact.examples is not None:
        floor = exact.outputs * exact.unexplained**2 / exact.examples
        right.axhline(floor, color="0.4", lw=1, ls=":", label="noise of the estimate, σ²/n")
        left.set_title(f"estimated from {exact.examples} examples", fontsize=9)
        right.set_title(f"unexplained: σ = {exact.unexplained:.3g}", fontsize=9)
    _draw_fit(left, right, exact)
    left.set_ylabel("eigenvalue λ_k of the inputs")
    right.set_ylabel("power of the task λ_k w*_k²")
    for panel in (left, right):
        panel.set_xlabel("mode k")
        finish(panel)
        legend_of(panel)
    return figure


def _draw(panel: Axes, k: np.ndarray, values: np.ndarray, errors: np.ndarray, colour: str) -> None:
    """Positive values on logarithmic axes, with bars that end above zero."""
    shown_modes = values > 0
    below = np.minimum(errors, 0.9 * values)[shown_modes]
    panel.errorbar(
        k[shown_modes],
        values[shown_modes],
        yerr=[below, errors[shown_modes]],
        color=colour,
        **CIRCLES,
    )
    panel.set_xscale("log")
    panel.set_yscale("log")


def _draw_fit(left: Axes, right: Axes, spectrum: Spectrum) -> None:
    """The fitted power laws through the points; nothing if there are too few modes."""
    try:
        fit = spectrum.power_law()
    except ProblemError:
        return
    lam, w = spectrum.arrays()
    k = np.arange(fit.first, fit.last + 1)
    power = (lam * w**2).sum(axis=0)
    for panel, values, exponent, label in (
        (left, lam, fit.capacity, f"k^(−{fit.capacity:.2f} ± {fit.capacity_error:.2f})"),
        (
            right,
            power,
            fit.capacity * fit.source + 1,
            f"source {fit.source:.2f} ± {fit.source_error:.2f}",
        ),
    ):
        positive = values[k - 1] > 0
        # Equal weight for equal pieces of log k, as in the fit.
        heights = np.log(values[k - 1][positive]) + exponent * np.log(k[positive])
        centre = np.average(heights, weights=1 / k[positive])
        panel.plot(k, np.exp(centre) * k**-exponent, color="#1a1a1a", lw=1.3, label=label)
