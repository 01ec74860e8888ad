"""What is told of the pictures of neural ODEs with noisy adjoints, other times and many amplitudes."""

from learndyn.papers.captions.neural_ode import facts_of

_PICTURES = (
    ("neural-ode-noisy-adjoint", "t", "c", 1.0),
    ("neural-ode-student-time", "t", "c", 1.0),
    ("neural-ode-power-law", "t", "c", 1.0),
)
FACTS = facts_of(_PICTURES)
"""By the name of the picture."""
