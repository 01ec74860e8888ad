"""Draws images/sweep-map.svg and sweep-best.svg: the sweep of the page on sweeps, on finer grids."""

from pathlib import Path

import numpy as np

import learndyn as ld
from learndyn.pictures.plotting import save_figure

IMAGES = Path(__file__).parent / "images"

problem = ld.Problem(
    network=ld.DeepLinear(depth=1, width=2.0, richness=0.5),
    data=ld.Stream(ld.LinearMap(), batch_ratio=2.0, noise=0.3),
    training=ld.GradientDescent(learning_rate=0.1, steps=40),
)
RATE, WIDTH = "training.learning_rate", "network.width"


def fine() -> ld.Sweep:
    """Theory alone: 40 rates and 20 widths."""
    over = {RATE: np.geomspace(0.02, 1, 40), WIDTH: np.geomspace(0.25, 8, 20)}
    return ld.sweep(problem, over, observables=["test_loss"], save_at=[0, 40])


def with_networks() -> ld.Sweep:
    """Theory and networks: 20 rates and 5 widths."""
    over = {RATE: np.geomspace(0.04, 0.5, 20), WIDTH: [0.5, 1.0, 2.0, 4.0, 8.0]}
    runs = {"size": 100, "seeds": 8}
    return ld.sweep(problem, over, simulate=runs, observables=["test_loss"], save_at=[0, 40])


if __name__ == "__main__":
    save_figure(ld.plot_sweep(fine()), IMAGES / "sweep-map.svg")
    save_figure(ld.plot_sweep(with_networks(), kind="best"), IMAGES / "sweep-best.svg")
