"""What is told of the figures of neural ODEs."""

from learndyn.papers.figure_facts import facts_of

REFERENCE = "Urbani, Theory of learning of high-dimensional controlled non-linear dynamical systems (I), 2025"

_shared = (
    "Teacher and student move in one Gaussian field with G(q, m) = 0.8 q m + 0.4 q² and μ̂(z) = z; the student learns "
    "the control of the teacher. Lines: theory, d → ∞, on the Euler grid of the finite systems."
)
CIRCLES = "Circles: mean over {} fields of finite systems, bars its standard error."
"""What is told of the circles of a picture, to be filled in with the number of fields."""
_PICTURES = (
    (
        "neural-ode-2",
        "A flow learns the control of a teacher, in theory and at d = 150",
        f"{_shared} {CIRCLES.format(10)} Fresh trajectories, truncated adjoint (the paper's), η = 0.1, m₀ = 0. (a) "
        "d = d_θ = 150, σ = 1, T = 0.5; (b) d = 100, σ = 0.75, T = 1. The paper's caption prints these numbers, but "
        "neither the Euler step, nor the length of training, nor the number of fields: here h = 0.1, 300 and 100 "
        "steps, 10 fields.",
        2.0,
    ),
    (
        "neural-ode-gradient",
        "The paper's adjoint is not the gradient of the loss",
        f"{_shared} {CIRCLES.format(10)} Fresh trajectories, η = 0.1, T = 2, h = 0.1, σ = 0.75, m₀ = 0, d = 100. "
        "Truncated: without the derivative of the confinement μ̂(|y|²/d), as the paper has it; true: with it. Both "
        "vanish at the teacher's control, and each theory describes its own descent; (d) shows the paths to it. T and "
        "η are chosen such that the two differ well. Late losses of finite systems lie above the theory, by a part of "
        "order 1/d. Not in the paper.",
        0.5,
    ),
    (
        "neural-ode-stability",
        "Which learning rates recover the teacher, from near and from far",
        f"{_shared} σ = 0.75, h = 0.1, one fresh trajectory a step. (a) Small deviations of (Q, m) from (1, 1) are "
        "multiplied at every step by a matrix, whose spectral radius is drawn, truncated adjoint; diamonds: the "
        "largest stable rates. (b–d) Loss at η = 1.7, T = 1, below the largest stable rate of 1.92: the truncated "
        "adjoint diverges from m₀ = 0 and recovers the teacher from m₀ = 0.3 and 0.8; the true gradient recovers it "
        "from m₀ = 0. Thin lines: 6 fields of d = 100 each, one line for each, because some stop where they diverge: "
        "5 from m₀ = 0 and 2 from m₀ = 0.3 with the truncated adjoint, none in the other two cases. Not in the paper.",
        1.2,
    ),
    (
        "neural-ode-reuse",
        "A few trajectories, used again and again",
        f"{_shared} {CIRCLES.format(20)} True gradient, η = 0.5, T = 1, h = 0.2, σ = 1.5: a trajectory has d numbers "
        "for 1.5 d controls. (a) d = 80, all n trajectories are used at every step: n = 1 is fitted without learning "
        "the teacher; n = 2 and 4 have more numbers than there are controls, and teach slower than fresh ones. (b) "
        "d = 160, squares d = 80: pieces of one long trajectory of the teacher, each starting where the last one "
        "ended, are correlated, and teach slower than fresh ones; the loss of the next piece stays below that of fresh "
        "starts. Late losses of finite systems lie above the theory, by less at d = 160. Not in the paper.",
        1.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
