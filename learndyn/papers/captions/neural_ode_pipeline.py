"""What is told of the drawing of one training step of a neural ODE."""

from learndyn.papers.captions.neural_ode import REFERENCE
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "neural-ode-1": FigureFacts(
        "neural-ode-1",
        "One training step of a neural ODE",
        "Drawn after the paper's Figure 1; a drawing, without numbers. Teacher and student start from the same fresh "
        "input z and flow for a time T in one random field r, each with its own control. The adjoint p starts at the "
        "gradient of the loss and runs back along the trajectory of the student, which has been kept. Then the control "
        "takes a step of rate η. Of the true gradient the equation of p has one more term, which the paper leaves out.",
        REFERENCE,
        0.1,
    )
}
"""By the name of the picture."""
