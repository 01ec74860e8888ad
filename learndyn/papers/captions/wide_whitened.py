"""What is told of the figure of a linear network on whitened points."""

from learndyn.papers.captions.wide import REFERENCE
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "wide-8": FigureFacts(
        "wide-8",
        "From exponential to sigmoidal learning on whitened points, in closed form",
        "Linear networks f = w·h/(γ₀N) with L = 1 hidden layer, P = D = 10 whitened points (x_μ·x_α/D = δ_μα) with "
        "targets ±1, y = √10; gradient flow of the loss summed over the points, in units of time in which the error "
        "decays as e^(−2t) at the end. (a) Norm Δ of y − f, (b) kernel of the features along the targets, "
        "H_y = y·Hy/y². Lines: the general theory of wide networks; crosses: the closed form of "
        "dΔ/dt = −2√(1 + γ₀²(y − Δ)²)Δ with H_y = √(1 + γ₀²(y − Δ)²); circles: 4 networks of N = 1000 with their "
        "initial functions subtracted, mean and standard error, in small steps. The paper prints the equation and "
        "refers to its figure 8, whose parameters are not in the text we have; these are chosen here.",
        REFERENCE,
        0.1,
    )
}
"""By the name of the picture."""
