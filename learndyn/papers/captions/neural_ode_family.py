"""What is told of the figures of the family of neural ODEs."""

from learndyn.papers.captions.neural_ode import CIRCLES, REFERENCE
from learndyn.papers.figure_facts import facts_of

_shared = (
    "G(q, m) = 0.8 q m + 0.4 q² unless said otherwise, μ̂(z) = z, T = 1, the true gradient, m₀ = 0. Lines: theory, d → "
    "∞, on the Euler grid of the finite systems. The paper announces this setting, and has no picture of it."
)
_PICTURES = (
    (
        "neural-ode-neurons",
        "Superfluous neurons switch themselves off",
        f"{_shared} {CIRCLES.format(10)} d = 100. "
        "The teacher has one neuron, the student three, each with a field of its own; controls and amplitudes are "
        "trained on fresh trajectories, η = η_a = 2, σ = 0.75, h = 1/6, a = (1, 1, −0.6) at the start. To the "
        "loss neurons 2 and 3 are noise: their amplitudes fall exponentially, and their controls stop at a finite "
        "norm; of neuron 1 only the product of amplitude and overlap is determined.",
        1.0,
    ),
    (
        "neural-ode-windows",
        "The order of two windows is learned after their sum",
        f"{_shared} {CIRCLES.format(10)} d = 100. "
        "Both flows use one field, with one control in the first half of the time and another in the second; "
        "fresh trajectories, η = 1, σ = 0.75, h = 1/6. (a) The loss sees the end: first both controls learn the "
        "mean of the teacher's two, then which is which. (b) It sees the boundary of the windows too.",
        1.0,
    ),
    (
        "neural-ode-early-stopping",
        "Few noisy trajectories: stop early",
        f"{_shared} {CIRCLES.format(20)} d = 80. "
        "n trajectories of a teacher with temperature 1/3, its noise part of the data, are used at every step; σ "
        "= 1, h = 0.2, η = 0.5. The train loss falls to the end, the test loss has a minimum (triangles). "
        "Test losses of finite systems lie below the theory; only this size was trained.",
        1.0,
    ),
    (
        "neural-ode-next-token",
        "Learning to continue one trajectory, against fresh data",
        f"{_shared} {CIRCLES.format(20)} d = 100. "
        "One trajectory a step, which starts where the last one ended, or afresh; σ = 0.75, h = 0.2, η = 0.4. (a) "
        "Without noise both recover the teacher, fresh data sooner; the train loss is that of the next piece. Late "
        "losses of finite systems on one trajectory lie far above the theory, by a part of order 1/d of the control. "
        "(b) With Langevin noise of teacher and student the memory of the trajectory leads to another stationary "
        "state, m = 1.007 for 0.963.",
        1.0,
    ),
    (
        "neural-ode-masks",
        "Monitored and masked trajectories",
        f"{_shared} {CIRCLES.format(10)} d = 100. "
        "Fresh trajectories, η = 1, σ = 0.75, h = 1/6; the loss sees the end, or the states at T/2 and T, or of "
        "each a fraction ρ = 0.4 of the components, other ones in each observation or the same in both.",
        0.7,
    ),
    (
        "neural-ode-context",
        "A field with a memory of an earlier state",
        f"{_shared} {CIRCLES.format(10)} d = 50. "
        "Here G(q, m, s) = 0.4 q m + 0.8 q m s, with s the overlap of the states a delay ago (before the start, "
        "the start itself), T = 2, σ = 0.75, h = 1/6, η = 0.2; fresh trajectories. A delay of 0 is the field 0.4 "
        "q m + 0.8 q² m.",
        1.0,
    ),
    (
        "neural-ode-stack",
        "A driver is learned through what it drives",
        f"{_shared} {CIRCLES.format(10)} d = 50. "
        "That is the field of the first system; the second moves in 0.4 q m + 0.4 q s + 0.4 q m s, with s the "
        "overlap of the first system's states. σ = 0.75, h = 1/6, η = 0.5, fresh trajectories. (a) The loss sees "
        "the second system alone; (b) and the first one with weight 0.3.",
        1.0,
    ),
)
FACTS = facts_of(REFERENCE, _PICTURES)
"""By the name of the picture."""
