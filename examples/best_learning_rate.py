"""`jax.grad` through a whole learning curve: the learning rate with the smallest final error."""

import jax
from scipy.optimize import brentq

import learndyn as ld

teacher = ld.Teacher.orthonormal("erf", hidden=2)
network = ld.TwoLayer.random(hidden=2, teacher=teacher, scale=0.5, size=784, seed=1)


def final_error(learning_rate):
    """The test loss at t = 30."""
    training = ld.GradientDescent(learning_rate, time=30.0)
    problem = ld.Problem(network, ld.Stream(teacher, noise=0.3), training)
    return ld.trace(problem, save_at=[30.0])["test_loss"][-1]


if __name__ == "__main__":
    with ld.float64():
        both = jax.jit(jax.value_and_grad(final_error))
        best = brentq(lambda rate: float(both(rate)[1]), 0.05, 1.0)
        error, slope = both(best)
    print(f"best learning rate {best:.4f}: final test loss {error:.6f}, slope {slope:.0e}")
