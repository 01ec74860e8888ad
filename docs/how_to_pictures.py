"""Write the pictures of the how-to pages: `python docs/how_to_pictures.py [name ...]`; needs the extra `data`."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.pictures.plotting import PANEL, Picture, save_figure
from learndyn.pictures.style import (
    COLOURS,
    TEST,
    TRAIN,
    draw_networks,
    draw_theory,
    finish,
    legend_of,
)

IMAGES = Path(__file__).parent / "images"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 images of 8 × 8 pixels, 61 of which change, with total variance 1; odd digits 1, even ones −1."""
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    return X / np.sqrt(X.var(axis=0).sum()), np.where(digit % 2, 1.0, -1.0)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """442 patients with 10 measurements, of total variance 1, and a target of variance 1."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X / np.sqrt(X.var(axis=0).sum()), y / y.std()


def on_real_data(X: np.ndarray, y: np.ndarray, examples: int) -> dict[str, ld.Solution]:
    """The theory of the spectrum, networks on Gaussian inputs of that spectrum, and networks on the examples."""
    data = ld.Examples(X, y)
    solutions = {}
    for name, covariance in (("Gaussian inputs", data.estimated), ("the real examples", data)):
        problem = ld.Problem(
            ld.DeepLinear(depth=1, width=200, richness=1.0),
            ld.Dataset(ld.LinearMap(covariance), examples=examples),
            ld.GradientDescent(learning_rate=0.5, steps=200),
        )
        at = np.unique(np.rint(np.geomspace(1, 200, 15)).astype(int))
        solutions[f"networks on {name}"] = ld.simulate(problem, len(X[0]), seeds=20, save_at=at)
    solutions["theory"] = ld.solve(problem)
    return solutions


def own_data() -> Figure:
    """Deep linear networks on digits and on diabetes."""
    figure = Picture(figsize=(2 * PANEL[0], PANEL[1] + 0.2), layout="constrained")
    settings = (
        ("digits, odd or even: 300 of 1797 images", *digits(), 300),
        ("diabetes: 100 of 442 patients", *diabetes(), 100),
    )
    for panel, (title, X, y, examples) in zip(figure.subplots(1, 2), settings, strict=True):
        solutions = on_real_data(X, y, examples)
        print(
            title,
            ld.compare(solutions["theory"], solutions["networks on the real examples"]),
            sep="\n",
        )
        _draw(panel, solutions)
        panel.set_title(title, fontsize=9)
    return figure


def _draw(panel: Axes, solutions: dict[str, ld.Solution]) -> None:
    """Test losses solid and above, train losses dashed and below, in the same colours."""
    theory = solutions.pop("theory")
    for observable, style in (("test_loss", TEST), ("train_loss", TRAIN)):
        curve = theory[observable]
        label = f"theory, {observable.removesuffix('_loss')}"
        draw_theory(panel, curve["step"], curve, label=label, ls=style)
        for (name, runs), colour, marker in zip(solutions.items(), COLOURS, "so", strict=False):
            label = name if observable == "test_loss" else None
            draw_networks(
                panel, runs["step"], runs[observable].values, colour, label, marker=marker
            )
    finish(panel, xscale="log", xlabel="training step", ylabel="mean squared error")
    legend_of(panel)


def spectrum() -> Figure:
    """The spectrum of the digits."""
    return ld.plot_spectrum(ld.Spectrum.from_data(*digits()))


def transfer() -> Figure:
    """The best rate over the width, in two parameterisations."""
    problem = ld.Problem(
        network=ld.DeepLinear(depth=2, width=0.5, richness=4.0, centered=True),
        data=ld.Stream(ld.LinearMap(), batch_ratio=1.0),
        training=ld.GradientDescent(learning_rate=0.1, steps=12),
    )
    found = ld.transfer(
        problem,
        "network.width",
        [0.5, 1, 2, 4, 8],
        parameterizations=["mup", "ntk"],
        size=300,
        seeds=8,
        check=[8],
        progress=True,
    )
    print(found)
    return ld.plot_transfer(found)


def frontier() -> Figure:
    """The smallest loss for a budget."""
    task = ld.LinearMap(ld.PowerLaw(capacity=1.5, source=0.6, modes=30))
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=8, richness=0.2),
        ld.Stream(task, batch=2),
        ld.GradientDescent(learning_rate=0.3, steps=600),
    )
    found = ld.frontier(
        problem, {"network.width": [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]}, progress=True
    )
    print(found)
    return ld.plot_frontier(found)


PICTURES = {
    "own-data": own_data,
    "own-spectrum": spectrum,
    "transfer-width": transfer,
    "frontier": frontier,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        save_figure(PICTURES[name](), IMAGES / f"{name}.svg")
