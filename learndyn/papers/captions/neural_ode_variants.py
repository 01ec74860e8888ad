"""What is told of the pictures of neural ODEs with noisy adjoints, other times and many amplitudes."""

from learndyn.papers.captions.neural_ode import CIRCLES, REFERENCE
from learndyn.papers.figure_facts import facts_of

_shared = (
    "G(q, m) = 0.8 q m + 0.4 q², μ̂(z) = z, T = 1, σ = 0.75, h = 0.2, the true gradient, m₀ = 0, one fresh trajectory a "
    "step. Lines: theory, d → ∞, on the Euler grid of the finite systems. The paper announces this setting, and has no "
    "picture of it."
)
_PICTURES = (
    (
        "neural-ode-noisy-adjoint",
        "How much noise of the adjoint learning stands",
        f"{_shared} {CIRCLES.format(10)} d = 100. The adjoint has Langevin noise of temperature τ_p (the paper's "
        "1/β_π). It does not change the mean step of the control, but diffuses it. (a, b) η = 0.3: loss, and cosine of "
        "the angle between the control and the teacher's. (c, d) The same at the end of training, after 400 steps in "
        "theory; finite systems: mean over three late states, steps 40 to 60, and 120 to 180 at η = 0.1. Dotted: "
        "proportional to τ_p. A smaller η leaves less; where noise and rate are both large, as at η = 1 and τ_p = 10, "
        "nothing is learned.",
        1.0,
    ),
    (
        "neural-ode-student-time",
        "A student with more or less time than its teacher",
        f"{_shared} {CIRCLES.format(10)} d = 80, η = 0.3. The teacher flows for T_t = 1, the student for T_s. (a, b) "
        "Training. (c) Loss after 400 steps in theory, and after 120 of finite systems; a second control for the "
        "second half of the student's time lowers it only a little (theory alone). (d) The control keeps nearly the "
        "direction of the teacher's, and its overlap follows T_t/T_s roughly: longer flows take weaker controls. "
        "What is left comes from the confinement and from the part of the field without control, which run for T_s.",
        1.0,
    ),
    (
        "neural-ode-power-law",
        "Neurons with power-law amplitudes are learned one after the other",
        f"{_shared} {CIRCLES.format(6)} d = 40, η = 1. Teacher and student have h = 12 neurons, each with a field of "
        "its own, and the teacher's amplitudes are a_j = h α_j with α_j ∝ j^−β and Σ α_j² = 1. (a–c) The student has "
        "the same amplitudes, and learns the controls; m_j is the overlap of neuron j with the teacher's. The rate of "
        "neuron j is proportional to α_j², so that the loss of many neurons falls as the power 1/(2β) − 1 of the "
        "steps (dotted), until the weakest one is learned. (d) The student starts with equal amplitudes and trains "
        "them too, η_a = 1. Finite systems learn weak neurons later than the theory; only this size was trained.",
        1.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
