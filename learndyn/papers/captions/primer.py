"""What is told of the figures of the primer."""

from learndyn.papers.figure_facts import facts_of

SIZE = 784
"""Inputs N of the trained networks."""
UNITS = 4
"""Units M of the teacher."""
REFERENCE = "Carrasco-Davis & Grant, A primer on analytical learning dynamics, ICLR blog posts 2025"
_setting = f"N = {SIZE}, M = {UNITS}, erf, B = 1, σ = 0"
_circles = "SGD from the same overlaps (the overlaps are drawn from their exact law in SGD at this N, step by step)"
_PICTURES = (
    (
        "primer-1",
        "Soft committee machines of different size",
        f"{_setting}, η = 0.5, initial scale 0.3, K = 2, 4, 6. Circles: mean and standard error of four runs of "
        f"{_circles}. At the drop for K = 6 the runs differ by orders of magnitude, and the largest set the mean; from "
        "t = 900 on all four lie above the theory, 12 times and more. The primer does not print η, the initial "
        "scale or the time; these show the plateau and the drop for K ≥ M.",
        1.0,
    ),
    (
        "primer-2",
        "Two-layer networks with a trained readout, and how well the order parameters align",
        f"{_setting}, η_v = η = 0.2, initial scale 1 (readout 0.5), K = 2, 4, 6. Circles: mean and standard error of "
        f"four runs of {_circles}. (d to f), not in the primer: the readouts. (g to i): one minus the cosine between "
        "the measured and the predicted Q, R, v, at most a few times 1/N (dotted), with peaks at the drops, where "
        "small differences are amplified; in four other runs at K = 4 the mean cosine of R fell to 0.89 at the last "
        "drop. The primer shows the cosine itself, which is 1 to the eye, and does not print η or the scale. With a "
        "larger η or smaller initial weights, noise rather than the initial state decides which unit learns what, "
        "and the alignment of R is lost. The initial draw (seed 2) was picked among a few for being decided by the "
        "initial state; from seed 1 at K = 6 the cosine of R fell to about 0.3 in three of four runs.",
        1.5,
    ),
    (
        "primer-3",
        "Large initial weights produce individual differences",
        f"{_setting}, η_v = η = 1, K = 4. The same four directions of the initial weights at three scales (first and "
        f"second layer alike), each with its own theory curve and one run of {_circles}. From large weights the loss "
        "falls in steps, one teacher unit after the other, at times of its own for each start. By t = 3000 one "
        "start at scale 2 has learnt the teacher and another waits for its last unit, until t > 10⁴; no start "
        "remains there for ever: the theory has learnt the teacher by t = 10⁵ in all of them. A single run leaves a "
        "plateau somewhat earlier or later than the theory. The four starts were picked among ten to be told apart. "
        "The primer prints none of these numbers for its figure 3.",
        2.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
