"""The edge of stability of gradient descent, seen in its gradients."""

import numpy as np
from jaxtyping import Float


def edge_of_stability(
    power: Float[np.ndarray, " T"] | list[float],
    successive: Float[np.ndarray, " T-1"] | list[float],
) -> int | None:
    """The first step at which training oscillates and the oscillation hardly decays, or None.

    `power` is the square of the gradient at all steps and `successive` its product with the one before, from step 1 on:
    the gradient must have turned round (a cosine below −½) without shrinking below nine tenths of its length. Finite
    networks approach the limit slowly there.
    """
    # Once training has converged, the rest is rounding.
    power = np.maximum(power, 1e-13 * np.max(power))
    successive = np.asarray(successive)
    turned = successive < -0.5 * np.sqrt(power[1:] * power[:-1])
    undamped = (power[1:] > 0.81 * power[:-1]) & (power[1:] > 1e-12 * power.max())
    steps = np.flatnonzero(turned & undamped)
    return int(steps[0]) + 1 if steps.size else None
