"""A flow that learns the control of another one, next to the theory, and the learning rates at which it can.

Teacher and student move in one random field; the student sees where the teacher's trajectories start and end, one
trajectory a step. In the limit the whole of training is a map of two numbers, the norm Q and the overlap m of the
student's control. Run:  python examples/neural_ode.py
"""

import learndyn as ld

# The covariance of the field is G(q, m) = 0.8 q m + 0.4 q²: rows are powers of q, columns powers of m.
FIELD = ld.PolynomialField([[0.0, 0.0], [0.0, 0.8], [0.4, 0.0]])
NETWORK = ld.NeuralODE(FIELD, control_ratio=0.75, time=1.0, steps=10)
problem = ld.Problem(
    network=NETWORK,
    data=ld.Stream(ld.TeacherFlow()),
    training=ld.GradientDescent(learning_rate=0.1, steps=60),
)


def main(size: int = 100, seeds: int = 10) -> None:
    theory = ld.solve(problem)
    runs = ld.simulate(problem, size, seeds, save_at=13)
    print(ld.compare(ld.solve(problem, save_at=13), runs))
    print(f"overlap after 60 steps, theory: {theory['m'][-1].item():.4f}")
    last = runs["m"].isel(step=-1)
    error = last.std(ddof=1) / seeds**0.5
    print(f"overlap after 60 steps, d = {size}: {last.mean():.4f} ± {error:.4f}")
    found = ld.recovery(problem)
    print(f"deviations from the teacher's control shrink by {found.spectral_radius:.4f} a step")
    print(f"the largest stable learning rate is {found.largest_rate:.4f}")
    chaos = ld.stationary_flow(NETWORK)
    print(f"the teacher's flow is {chaos.phase}, with Lyapunov exponent {chaos.lyapunov:.4f}")
    ld.plot(theory, runs, observables=["Q", "m", "test_loss"]).savefig("neural_ode.png", dpi=120)


if __name__ == "__main__":
    main()
