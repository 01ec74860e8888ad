"""Ten lines: a soft committee machine learns online; theory and finite networks in one picture."""

import learndyn as ld

teacher = ld.Teacher.orthonormal("erf", hidden=2)
problem = ld.Problem(
    network=ld.TwoLayer.random(hidden=3, teacher=teacher, scale=0.5, size=784, seed=1),
    data=ld.Stream(teacher, noise=0.1),
    training=ld.GradientDescent(learning_rate=1.0, time=100.0),
)
theory = ld.solve(problem)
runs = ld.simulate(problem, size=784, seeds=10)
print(ld.compare(theory, runs))
ld.plot(theory, runs).savefig("committee.png", dpi=150)
