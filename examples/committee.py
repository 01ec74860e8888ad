"""Ten lines: a soft committee machine learns online; theory and finite networks in one picture."""

import learndyn as ld

teacher = ld.Teacher.orthonormal("erf", hidden=2)
problem = ld.Problem(
    network=ld.TwoLayer("erf", Q=[[0.25, 0.0], [0.0, 0.25]], R=[[0.05, 0.0], [0.0, 0.05]]),
    data=ld.Stream(teacher, noise=0.1),
    training=ld.GradientDescent(learning_rate=1.5, time=80.0),
)
theory = ld.solve(problem)
runs = ld.simulate(problem, size=784, seeds=10)
print(ld.compare(theory, runs))
ld.plot(theory, runs, observables=["test_loss", "R"]).savefig("committee.png", dpi=120)
