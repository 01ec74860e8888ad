"""A network and its limit side by side, a step at a time: weights on the way, and a task that changes in the middle.

A student of two units learns the first unit of a teacher; at t = 20 the task becomes the second one. The order
parameters of the limit are advanced next to a network of 784 inputs, whose weights are looked at on the way.
"""

import dataclasses

import numpy as np

import learndyn as ld


def task(readout: list[float]) -> ld.Problem:
    """To learn the teacher unit that has a readout. A teacher holds the units of all tasks."""
    teacher = ld.Teacher("erf", T=np.eye(2), readout=readout)
    network = ld.TwoLayer("erf", Q=0.25 * np.eye(2), R=[[0.05, 0.0], [0.0, 0.05]])
    return ld.Problem(network, ld.Stream(teacher), ld.GradientDescent(1.0, time=40.0))


first, second = task([1.0, 0.0]), task([0.0, 1.0])
limit, network = ld.start(first), ld.start(first, size=784, seed=0)

weights = {0.0: network.weights["W"]}
for t in np.linspace(0.5, 40.0, 80):
    limit.advance(t)
    network.advance(t)
    weights[network.now] = network.weights["W"]
    if t == 20.0:
        limit.problem, network.problem = second, second

# What was recorded is what the weights say: R = W W*ᵀ/N.
teacher = network.weights["W_star"]
R = np.stack([W @ teacher.T / 784 for W in weights.values()])
difference = np.abs(R - network.solution["R"].values[0]).max()
print(f"overlaps from the weights and as recorded differ by {difference:.1g}")
print("the network would see next:", {name: x.shape for name, x in network.sample(3).items()})

theory, runs = limit.solution, network.solution
print(ld.alignment(theory, runs).round(4))
picture = ld.plot(theory, runs, observables=["test_loss", "R"], log="")

# One rate for the beginning and another for the end is a schedule made by hand.
by_hand = ld.start(first)
by_hand.advance(10.0)
slower = dataclasses.replace(first.training, learning_rate=0.2)
by_hand.problem = dataclasses.replace(first, training=slower)
jump = ld.Piecewise(times=[10.0], values=[1.0, 0.2])
scheduled = dataclasses.replace(
    first, training=dataclasses.replace(first.training, learning_rate=jump)
)
end = by_hand.advance(40.0).state["test_loss"].item()
print("by hand and by a schedule:", end, ld.solve(scheduled, save_at=2)["test_loss"].values[-1])
