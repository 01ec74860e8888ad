"""A deep linear network on a fixed dataset: theory, finite networks, and what an ensemble would gain."""

import learndyn as ld

problem = ld.Problem(
    network=ld.DeepLinear(depth=3, width=0.8, richness=0.7),
    data=ld.Dataset(ld.LinearMap(), ratio=1.5, noise=0.5),
    training=ld.GradientDescent(learning_rate=0.05, steps=150),
)
theory = ld.solve(problem, ld.Rows(ensembles=True))
runs = ld.simulate(problem, size=400, seeds=10)
print(ld.compare(theory, runs))
for members in (1, 2, 8):
    loss = ld.ensemble_loss(theory, members)
    print(f"mean of {members} networks: smallest test loss {float(loss.min()):.3f}")
ld.plot(theory, runs, observables=["test_loss", "train_loss"]).savefig("deep_linear.png", dpi=120)
