"""How the best learning rate of a residual network depends on its depth, for two scalings of the branches.

With a fixed branch scale β it falls by orders of magnitude; with β = β_0/√L it converges. Run it with:
python examples/residual_depth.py
"""

import math

import learndyn as ld

DATA = ld.Stream(ld.LinearMap(), batch_ratio=2.0, noise=0.5)


def best_rate(depth, skip) -> float:
    network = ld.DeepLinear(depth, width=1.0, richness=1.0, centered=True, skip=skip)
    problem = ld.Problem(network, DATA, ld.GradientDescent(1e-3, steps=20))
    return ld.best_rate(problem, rtol=0.01).rate


def main() -> None:
    print("depth   β = 1     β = 1.25/√L")
    for depth in (1, 2, 4, 8, 16):
        fixed, scaled = best_rate(depth, 1.0), best_rate(depth, ld.ScaledSkip(1.25))
        print(f"{depth:5d}   {fixed:.2e}  {scaled:.4f}")
    infinite = ld.DeepLinear(math.inf, width=1.0, centered=True, skip=ld.ScaledSkip(1.25))
    theory = ld.solve(ld.Problem(infinite, DATA, ld.GradientDescent(0.01, steps=20)))
    loss, accuracy = float(theory["test_loss"][-1]), theory.evidence["accuracy"]["test_loss"]
    print(
        f"infinitely deep, rate 0.01: test loss {loss:.6f} after 20 steps, accurate to {accuracy:.0e}"
    )


if __name__ == "__main__":
    main()
