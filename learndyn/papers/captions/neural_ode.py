"""What is told of the figures of neural ODEs."""

from learndyn.papers.figure_facts import FigureFacts

REFERENCE = "Urbani, Theory of learning of high-dimensional controlled non-linear dynamical systems (I), 2025"
_shared = (
    "Teacher and student move in one Gaussian field with G(q, m) = 0.8 q m + 0.4 q² and μ̂(z) = z; the student learns "
    "the control of the teacher. Lines: theory, d → ∞, on the Euler grid of the finite systems; points: mean and "
    "standard deviation over fields."
)
_PICTURES = (
    (
        "neural-ode-2",
        "A flow learns the control of a teacher, in theory and at d = 150",
        f"{_shared} Fresh trajectories, truncated adjoint (the paper's), η = 0.1, m₀ = 0. (a) d = d_θ = 150, σ = 1, "
        "T = 0.5; (b) d = 100, σ = 0.75, T = 1. The paper's caption prints these numbers, but neither the Euler step, "
        "nor the length of training, nor the number of fields: here h = 0.1, 300 and 100 steps, 10 fields.",
        2.0,
    ),
    (
        "neural-ode-gradient",
        "The paper's adjoint is not the gradient of the loss",
        f"{_shared} Fresh trajectories, η = 0.1, T = 2, h = 0.1, σ = 0.75, m₀ = 0, 10 fields of d = 100. Truncated: "
        "without the derivative of the confinement μ̂(|y|²/d), as the paper has it; true: with it. Both vanish at the "
        "teacher's control. Each theory describes its own descent. T and η are chosen such that the two differ well.",
        0.5,
    ),
    (
        "neural-ode-stability",
        "Which learning rates recover the teacher, from near and from far",
        f"{_shared} σ = 0.75, h = 0.1, one fresh trajectory a step. (a) Small deviations of (Q, m) from (1, 1) are "
        "multiplied at every step by a matrix, whose spectral radius is drawn, truncated adjoint; dots: the largest "
        "stable rates. (b) Loss at η = 1.7, T = 1, below the largest stable rate of 1.92: the truncated adjoint "
        "recovers the teacher from m₀ = 0.3 and 0.8, but diverges from m₀ = 0; the true gradient does not. Thin lines: "
        "6 fields of d = 100 each; of those 5 diverge from m₀ = 0 and 2 from m₀ = 0.3, none in the other two cases.",
        1.2,
    ),
    (
        "neural-ode-chaos",
        "The teacher's flow is chaotic",
        "G(q, 1) = 0.8 q + (g₂/2) q² and μ̂(z) = z, no training. (a) Stationary correlation in continuous time; points: "
        "the closed form. (b) Largest Lyapunov exponent λ, from the lowest level of −∂² − G'(C(τ)); points: "
        "√(0.8 + ¾g₂q) − μ with μ² = 0.8 + g₂q/3, always positive. (c) Growth rate of a small perturbation of a start "
        "with |x|² = d on three Euler grids, g₂ = 3: it approaches λ up to O(h), after the correlation has become "
        "stationary.",
        0.3,
    ),
    (
        "neural-ode-adjoint",
        "The adjoint of a chaotic flow grows at its Lyapunov exponent, the truncated one at twice that",
        "G(q, 1) = 0.8 q + 1.5 q² and μ̂(z) = z, h = 0.1. (a) The flow alone for a time 12, d → ∞: correlation of the "
        "adjoint back from p_N = x_N; dotted: growth with the λ of continuous time. (b) A student with Q = 1, m = 0, "
        "G(q, m) = 0.8 q m + 1.5 q², σ = 0.75, T = 3, back from p_N = y_N − x_N; line: theory, d → ∞; points: mean and "
        "standard deviation of 20 fields of d = 80, which scatter widely.",
        1.0,
    ),
    (
        "neural-ode-reuse",
        "A few trajectories, used again and again",
        f"{_shared} True gradient, η = 0.5, T = 1, h = 0.2, σ = 1.5: a trajectory has d numbers for 1.5 d controls. "
        "20 fields. (a) d = 80, all n trajectories are used at every step: n = 1 is fitted without learning the "
        "teacher; n = 2 and 4 have more numbers than there are controls, and teach slower than fresh ones. (b) "
        "d = 160, crosses d = 80: pieces of one long trajectory of the teacher, each starting where the last one "
        "ended, are correlated, and teach slower than fresh ones; the loss of the next piece stays below that of fresh "
        "starts. Late losses of finite systems lie above the theory, by less at d = 160.",
        1.0,
    ),
)
FACTS = {
    name: FigureFacts(name, title, caption, REFERENCE, minutes)
    for name, title, caption, minutes in _PICTURES
}
"""By the name of the picture."""
