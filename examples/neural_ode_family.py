"""Flows with several neurons, and with several windows of time, next to the theory.

A student with three neurons, each with a random field of its own, learns from a teacher with one: the other two switch
themselves off. A student and a teacher that use one control in the first half of the time and another in the second:
what the two have in common is learned before their order. Run:  python examples/neural_ode_family.py
"""

import learndyn as ld

# The covariance of the fields is G(q, m) = 0.8 q m + 0.4 q²: rows are powers of q, columns powers of m.
FLOW = {
    "field": ld.PolynomialField([[0.0, 0.0], [0.0, 0.8], [0.4, 0.0]]),
    "control_ratio": 0.75,
    "time": 1.0,
    "steps": 6,
}
neurons = ld.Problem(
    ld.NeuralODE(**FLOW, amplitudes=[1.0, 1.0, -0.6], train_amplitudes=True),
    ld.Stream(ld.TeacherFlow()),
    ld.GradientDescent(learning_rate=2.0, steps=40),
)
windows = ld.Problem(
    ld.NeuralODE(**FLOW, windows=2),
    ld.Stream(ld.TeacherFlow()),
    ld.GradientDescent(learning_rate=1.0, steps=40),
)


def main(size: int = 80, seeds: int = 8) -> None:
    for problem in (neurons, windows):
        theory = ld.solve(problem, save_at=9)
        runs = ld.simulate(problem, size, seeds, save_at=9)
        print(ld.compare(theory, runs))
        if problem is neurons:
            print("amplitudes, theory:", theory["a"].values[-1].round(3))
            print(f"amplitudes, d = {size}:", runs["a"].mean("seed").values[-1].round(3))
            ld.plot(theory, runs, observables=["a"]).savefig("neural_ode_family.png", dpi=120)
        else:
            for name, M in (("theory", theory["m"]), (f"d = {size}", runs["m"].mean("seed"))):
                (own, other), _ = M.values[-1]
                print(f"sum of the two controls learned, {name}: {own + other:.3f}")
                print(f"their order learned, {name}: {own - other:.3f}")


if __name__ == "__main__":
    main()
