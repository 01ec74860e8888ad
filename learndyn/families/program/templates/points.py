"""A network of your own on given points, written as its forward pass.

    learndyn run points.py

Here: a recurrent network h ← W tanh(h) + J x that is read out after a few times. The function is handed a net and the
number of inputs, makes the weights, and hands back the outputs as a function of points × inputs. Outputs are divided by
the richness, and trained as those of `ld.Wide`.
"""

import numpy as np

import learndyn as ld
from learndyn.programs import Net, einsum, mean


def recurrent(net: Net, inputs: int, times: int = 2):
    N = net.dim("neurons")
    W, J, w = net.matrix(N, N), net.normal(N, inputs), net.normal(N)

    def outputs(x):
        h = drive = einsum("pd,d->p", x / np.sqrt(inputs), J)
        for _ in range(times):
            h = W @ np.tanh(h) + drive
        return mean(w * np.tanh(h))

    return outputs


problem = ld.Problem(
    ld.Program(recurrent, times=2, richness=1.5),
    ld.Points.random(points=3, dimension=6),
    ld.GradientDescent(learning_rate=0.25, steps=12),
)
