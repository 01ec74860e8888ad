"""Find the learning-rate schedule that ends online training with the smallest test loss, and confirm it by training.

The theory gives the derivative of the final loss with respect to the rate of every step; a standard optimiser does the
rest. Run it with:  python examples/learning_rate_schedule.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize, minimize_scalar

import learndyn as ld

STEPS = 40
NETWORK = ld.DeepLinear(depth=2, width=1.0, richness=1.0, centered=True)
DATA = ld.Stream(ld.LinearMap(), batch_ratio=0.5, noise=0.5)


def problem(rate) -> ld.Problem:
    return ld.Problem(NETWORK, DATA, ld.GradientDescent(rate, steps=STEPS))


def best_constant() -> tuple[float, float]:
    """The best constant rate and its final loss."""

    def final(log_rate):
        solution = ld.solve(problem(np.exp(log_rate)), save_at=[0, STEPS])
        return np.inf if solution.diverged_at else float(solution["test_loss"][-1])

    found = minimize_scalar(final, bounds=np.log([0.005, 0.2]), method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def best_schedule(start: float) -> tuple[np.ndarray, float]:
    """The best rate for every step, from a constant one: gradient descent on logarithms, by L-BFGS."""

    def final(log_rates):
        return ld.trace(problem(ld.PerStep(jnp.exp(log_rates))))["test_loss"][-1]

    with ld.float64():
        value_and_slope = jax.jit(jax.value_and_grad(final))

        def objective(log_rates):
            value, slope = value_and_slope(jnp.asarray(log_rates))
            return float(value), np.asarray(slope)

        found = minimize(objective, np.full(STEPS, np.log(start)), jac=True, method="L-BFGS-B")
    return np.exp(found.x), float(found.fun)


def trained(rate, size: int, seeds: int) -> tuple[float, float]:
    """The final test loss of finite networks: mean and standard error."""
    losses = ld.simulate(problem(rate), size, seeds, save_at=[0, STEPS])["test_loss"][:, -1].values
    return float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(seeds))


def main(size: int = 400, seeds: int = 10) -> None:
    constant, loss = best_constant()
    schedule, better = best_schedule(constant)
    print(f"best constant rate {constant:.4f}: final loss {loss:.4f}")
    print(f"best schedule, from {schedule[0]:.4f} to {schedule[-1]:.4f}: final loss {better:.4f}")
    for name, rate in (("constant", constant), ("schedule", ld.PerStep(schedule))):
        mean, error = trained(rate, size, seeds)
        print(f"trained with the {name} at D = {size}: {mean:.4f} ± {error:.4f}")
    print("rates:", np.array2string(schedule, precision=3, max_line_width=100))


if __name__ == "__main__":
    main()
