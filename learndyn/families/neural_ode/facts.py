"""What is told of the theories of neural ODEs."""

from pathlib import Path

from learndyn.core.facts import Facts

FACTS = {
    facts.name: facts
    for facts in (
        Facts(
            name=f"neural_ode/{supply.lower()}",
            network="NeuralODE",
            task="TeacherFlow",
            supply=supply,
            training="GradientDescent",
            summary=f"a flow that learns another one from {examples} trajectories",
            exactness="exact as d → ∞",
            reference="Urbani 2025",
            template=Path(__file__).parent / f"{supply.lower()}.toml",
        )
        for supply, examples in (("Stream", "fresh or chained"), ("Dataset", "a few reused"))
    )
}
"""By the name of the theory."""
