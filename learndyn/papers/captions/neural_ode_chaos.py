"""What is told of the pictures of neural ODEs without training."""

from learndyn.papers.captions.neural_ode import REFERENCE
from learndyn.papers.figure_facts import facts_of

_PICTURES = (
    (
        "neural-ode-chaos",
        "The teacher's flow is chaotic",
        "G(q, 1) = 0.8 q + (g₂/2) q² and μ̂(z) = z, no training. (a) Stationary correlation in continuous time; "
        "crosses: the closed form. (b) Largest Lyapunov exponent λ, from the lowest level of −∂² − G'(C(τ)); crosses: "
        "√(0.8 + ¾g₂q) − μ with μ² = 0.8 + g₂q/3, always positive. (c) Growth rate of a small perturbation of a start "
        "with |x|² = d on three Euler grids, g₂ = 3: it approaches λ up to O(h), after the correlation has become "
        "stationary. Not in the paper.",
        0.3,
    ),
    (
        "neural-ode-adjoint",
        "The adjoint of a chaotic flow grows at its Lyapunov exponent, the truncated one at twice that",
        "G(q, 1) = 0.8 q + 1.5 q² and μ̂(z) = z, h = 0.1. (a) The flow alone for a time 12, d → ∞: correlation of the "
        "adjoint back from p_N = x_N; dotted: growth with the λ of continuous time. (b) A student with Q = 1, m = 0, "
        "G(q, m) = 0.8 q m + 1.5 q², σ = 0.75, T = 3, back from p_N = y_N − x_N; line: theory, d → ∞; circles: mean "
        "over 60 fields of d = 80, bars its standard error. Fields scatter widely, and the circles of a colour share "
        "theirs, so that they lie off to one side together: with 20 of these fields the mean of the truncated adjoint "
        "at T was twice the theory. Not in the paper.",
        1.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
