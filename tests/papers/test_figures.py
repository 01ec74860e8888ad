"""Every registered picture has a caption and a reference, can be drawn, and has labelled panels with finite curves.

What the curves of a picture show is tested with its family.
"""

import functools
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from learndyn.papers import convolutional as convolutional_figure
from learndyn.papers import (
    deep_linear,
    delay_map,
    delayed_memory,
    neural_ode,
    primer,
    residual,
    wide,
    wide_features,
    wide_whitened,
)
from learndyn.papers import deep_linear_power_laws as power_laws
from learndyn.papers import delayed_features as reused
from learndyn.papers import neural_ode_chaos as flows
from learndyn.papers import neural_ode_family as family
from learndyn.papers import neural_ode_pipeline as drawing
from learndyn.papers import neural_ode_variants as variants
from learndyn.papers.registry import figures
from tests.pictured import along_y, legend_of, place_of

BORDELON, URBANI, HILD, PRIMER = "Bordelon", "Urbani", "HiLD", "A primer"


class Tiny(NamedTuple):
    """How a picture is drawn in seconds, with the panels and curves of the real one, and what it must have.

    - `settings`: smaller numbers for `make`; `size`: for pictures without them, that of all networks.
    - `reference`, `caption`: what these texts contain, the caption as patterns; `minutes`: how long the real one takes.
    - `grid`: only panels at the ends of rows and columns have labels; else every panel has its own along x, and along y
      unless it shares the axis of the first.
    - `titles`: every panel has a title. `labels`: labels of axes that are there. `along_x`: that of x in every panel.
    - `legend`: every panel has one with so many names. `lines`: so many lines in every panel, all of them positive.
    - `named`: what the name of a line contains. `gaps`: images may have cells without a value.
    - `boxes`: it is a drawing, without axes.
    """

    make: Callable
    settings: dict[str, Any]
    reference: str
    minutes: float
    caption: tuple[str, ...] = (".{100}",)
    size: int | None = None
    grid: bool = False
    titles: bool = True
    labels: frozenset[str] = frozenset()
    along_x: str = ""
    legend: int = 0
    lines: int = 0
    named: str = ""
    gaps: bool = False
    boxes: bool = False


WIDE = ("γ₀", "η = ", "P = ", "D = ", "L = ", "N = ", "steps", "aper")
GROKKING = ("α", "ε", "γ", "A₀", "The paper")
FLOW = (r"G\(q, ", r"μ̂\(z\) = z")
TRAINED = (*FLOW, "η = ", "T = ", "h = ", "σ = ", "d = ")
FAMILY = (
    *(r"G\(q, m\) = 0\.8 q m \+ 0\.4 q²", r"μ̂\(z\) = z"),
    *("T = 1", "η = ", "h = ", "m₀ = 0", r"σ\s=\s"),
)
FEW: dict[str, Any] = {"size": 20, "steps": 6}
SAMPLED: dict[str, Any] = {"samples": 16, "batches": 2}
CURVES: dict[str, Any] = {"labels": frozenset({wide.STEP, wide.LOSS})}
SYSTEMS: dict[str, Any] = {"size": 16, "seeds": 2}
LEGENDS: dict[str, Any] = {"named": "d = 16", "along_x": "training step a"}

TINY = {
    "primer-1": Tiny(
        primer.figure_1,
        {"seeds": 2, "time": 10.0},
        *(PRIMER, 4, ("N = 784", "η = 0.5")),
        size=20,
    ),
    "primer-2": Tiny(
        primer.figure_2,
        {"seeds": 2, "time": 10.0},
        *(PRIMER, 6, ("N = 784", "η = 0.2")),
        size=20,
        grid=True,
        titles=False,
    ),
    "primer-3": Tiny(primer.figure_3, {"time": 10.0}, PRIMER, 10, ("N = 784", "η = 1"), size=20),
    "grokking-1": Tiny(
        reused.figure_1,
        {"sizes": (30,), "seeds": (2,), "time": 10.0, "samples": 128, "batches": 2},
        HILD,
        8,
        GROKKING,
    ),
    "grokking-2": Tiny(
        reused.figure_2, {"size": 30, "seeds": 2, "time": 2.0, **SAMPLED}, HILD, 8, GROKKING
    ),
    "grokking-3": Tiny(
        delayed_memory.figure_3,
        {"size": 30, "seeds": 2, "time": 2.0, **SAMPLED},
        *(HILD, 8, GROKKING),
        gaps=True,
    ),
    "grokking-map": Tiny(
        delay_map.delay_map,
        {"count": 2, "horizon": 12.0, "gamma": 8.0, **SAMPLED},
        *(HILD, 8, GROKKING),
        gaps=True,
    ),
    "deep-linear-1": Tiny(
        deep_linear.figure_1, {"size": 16, "seeds": 2, "steps": 6}, BORDELON, 2, lines=2
    ),
    "deep-linear-2": Tiny(
        deep_linear.figure_2,
        {"size": 16, "seeds": 2, "steps": 3, "count": 9},
        *(BORDELON, 2),
        lines=3,
    ),
    "deep-linear-3": Tiny(
        deep_linear.figure_3,
        {"size": 20, "large": 20, "seeds": 2, "steps": 64, "count": 5},
        *(BORDELON, 3),
        lines=4,
    ),
    "deep-linear-4": Tiny(
        residual.figure_4,
        {"size": 16, "seeds": 2, "steps": 16, "deepest": 4},
        *(BORDELON, 1),
        lines=3,
    ),
    "deep-linear-5": Tiny(
        residual.figure_5,
        {"size": 8, "seeds": 2, "steps": 4, "count": 7},
        *(BORDELON, 3),
        lines=5,
    ),
    "deep-linear-6": Tiny(
        power_laws.figure_6, {"modes": 20, "seeds": 2, "steps": 24}, BORDELON, 2, lines=3
    ),
    "deep-linear-7": Tiny(deep_linear.figure_7, {"steps": 5, "count": 2}, BORDELON, 2, lines=4),
    "deep-linear-8": Tiny(
        power_laws.figure_8,
        {"ranks": 1e4, "end": 100.0, "inputs": 40, "width": 20},
        *(BORDELON, 6),
        grid=True,
        lines=3,
    ),
    "wide-1": Tiny(
        wide_features.figure_1,
        FEW
        | {"seeds": 2, "widths": (10, 20), "repeats": 2, "samples": 1024, "batches": 2, "draws": 2},
        *(BORDELON, 5, WIDE),
        **CURVES,
    ),
    "wide-1-kernels": Tiny(
        wide_features.figure_1_kernels,
        FEW | {"samples": 1024, "batches": 2},
        *(BORDELON, 2, WIDE),
    ),
    "wide-2": Tiny(wide.figure_2, FEW | {"seeds": 2, "points": 4}, BORDELON, 1.5, WIDE, **CURVES),
    "wide-3": Tiny(
        wide.figure_3,
        FEW | {"seeds": 2, "richnesses": (0.2, 1.0), "samples": 32, "batches": 2},
        *(BORDELON, 1.5, WIDE),
        **CURVES,
    ),
    "wide-4": Tiny(
        wide.figure_4,
        FEW | {"seeds": 2, "points": 4, "richnesses": (0.5, 1.5)},
        *(BORDELON, 1.5, WIDE),
        **CURVES,
    ),
    "wide-4-times": Tiny(wide.figure_4_times, FEW | {"points": 4}, BORDELON, 1.5, WIDE),
    "wide-5": Tiny(
        convolutional_figure.figure_5,
        {"widths": (4, 8), "richness": (0.5, 1.0), "seeds": 2, "steps": 2, "points": 4}
        | {"samples": 1024, "batches": 2},
        *(BORDELON, 4, ("γ₀", "η = ", "N channels", "aper")),
    ),
    "wide-8": Tiny(
        wide_whitened.figure_8,
        {"size": 20, "seeds": 2, "richnesses": (0.5, 1.0), "states": 9},
        *(BORDELON, 1, ("γ₀", "P = D = 10", "L = 1", "N = 1000", "paper")),
    ),
    "neural-ode-1": Tiny(drawing.pipeline, {}, URBANI, 1, boxes=True),
    "neural-ode-2": Tiny(
        neural_ode.figure_2, {"sizes": (8, 6), "seeds": 2, "steps": (12, 12)}, URBANI, 3, TRAINED
    ),
    "neural-ode-gradient": Tiny(
        neural_ode.gradients, {"size": 6, "seeds": 2, "steps": 11}, URBANI, 3, TRAINED
    ),
    "neural-ode-stability": Tiny(
        neural_ode.stability,
        {"times": (1.0,), "steps": 30, "size": 6, "seeds": 1},
        *(URBANI, 3, TRAINED),
    ),
    "neural-ode-chaos": Tiny(
        flows.chaos, {"count": 4, "grids": (0.1, 0.05), "time": 4.0}, URBANI, 3, FLOW
    ),
    "neural-ode-adjoint": Tiny(
        flows.adjoints, {"time": 2.0, "short": 0.6, "size": 6, "seeds": 2}, URBANI, 3, FLOW
    ),
    "neural-ode-reuse": Tiny(
        neural_ode.reuse,
        {"sizes": (6, 8), "seeds": 2, "steps": 4, "examples": (1, 2)},
        *(URBANI, 3, TRAINED),
    ),
    "neural-ode-noisy-adjoint": Tiny(
        variants.noisy_adjoint,
        {"size": 8, "seeds": 2, "steps": 12, "count": 3, "rates": (0.3,)},
        *(URBANI, 3, FAMILY),
    ),
    "neural-ode-student-time": Tiny(
        variants.student_time,
        {"size": 8, "seeds": 2, "steps": 12, "times": (0.6, 1.0, 2.0), "windowed": (1.2, 2.0)},
        *(URBANI, 3, FAMILY),
    ),
    "neural-ode-power-law": Tiny(
        variants.power_law,
        {"size": 24, "seeds": 2, "steps": 80, "neurons": 8},
        *(URBANI, 3, FAMILY),
    ),
    "neural-ode-neurons": Tiny(family.neurons, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-windows": Tiny(family.windows, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-early-stopping": Tiny(family.early_stopping, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-next-token": Tiny(family.next_token, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-masks": Tiny(family.masks, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-context": Tiny(family.context, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
    "neural-ode-stack": Tiny(family.stack, SYSTEMS, URBANI, 3, FAMILY, **LEGENDS),
}


def registered(name: str):
    return {figure.name: figure for figure in figures()}[name]


@functools.cache
def drawn_tiny(name: str):
    """A picture, drawn once, and what it reported."""
    reported: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        if TINY[name].size is not None:
            patch.setattr(primer, "SIZE", TINY[name].size)
        return registered(name).make(reported.append, **TINY[name].settings), reported


every_figure = pytest.mark.parametrize("name", [figure.name for figure in figures()])


@every_figure
def test_a_figure_is_registered_with_a_caption_and_a_reference(name):
    figure, tiny = registered(name), TINY[name]
    assert figure.make is tiny.make
    assert figure.title
    assert tiny.reference in figure.reference
    assert 0 < figure.minutes <= tiny.minutes
    for pattern in tiny.caption:
        assert re.search(pattern, figure.caption), pattern


@pytest.mark.slow
@every_figure
def test_a_figure_reports_its_progress_up_to_the_end(name):
    _, reported = drawn_tiny(name)
    assert all(earlier <= later for earlier, later in pairwise(reported))
    assert reported[-1] == pytest.approx(1.0)


@pytest.mark.slow
@every_figure
def test_a_figure_has_labelled_panels(name):
    figure, tiny = drawn_tiny(name)[0], TINY[name]
    assert figure.axes
    bars = [panel for panel in figure.axes if panel.get_label() == "<colorbar>"]
    # A panel without axes holds the legend of the others.
    panels = [panel for panel in figure.axes if panel not in bars and panel.axison]
    assert all(bar.get_ylabel() for bar in bars)
    if tiny.boxes:
        assert not panels
        return
    for panel in panels:
        # The maps of a grid share the labels of its last row and first column.
        at_ends = tiny.grid or (panel.images and name.startswith("wide"))
        assert panel.get_xlabel() or (at_ends and not place_of(panel).is_last_row())
        shared = panel.get_shared_y_axes().joined(panel, figure.axes[0])
        first = shared and panel is not figure.axes[0]
        assert panel.get_ylabel() or (not place_of(panel).is_first_col() if at_ends else first)
        assert panel.get_title() or not tiny.titles or at_ends
        assert tiny.along_x in ("", panel.get_xlabel())
        if tiny.legend:
            texts = [text.get_text() for text in legend_of(panel).get_texts()]
            assert len(texts) == len(set(texts)) >= tiny.legend
    labels = {label for panel in panels for label in (panel.get_xlabel(), panel.get_ylabel())}
    assert tiny.labels <= labels


@pytest.mark.slow
@every_figure
def test_the_curves_of_a_figure_are_finite(name):
    figure, tiny = drawn_tiny(name)[0], TINY[name]
    names = [str(line.get_label()) for panel in figure.axes for line in panel.lines]
    assert not tiny.named or any(tiny.named in label for label in names)
    for panel in figure.axes:
        for line in panel.lines:
            assert np.isfinite(np.asarray(line.get_ydata(), dtype=float)).all()
        if not tiny.gaps:
            for image in panel.images:
                assert np.isfinite(np.asarray(image.get_array(), dtype=float)).all()
        theory = [line for line in panel.lines if line.get_linestyle() != "None"]
        theory = [along_y(line) for line in theory if len(along_y(line))]
        assert len(theory) >= tiny.lines
        if tiny.lines:
            assert all((values > 0).all() for values in theory)


def test_every_registered_figure_has_tiny_settings_and_there_are_no_others():
    assert TINY.keys() == {figure.name for figure in figures()}
