"""What the template of each theory costs: to solve it, once compiled, and to train one network as long.

Prints a table in Markdown; `python -m benchmarks cost > docs/cost.txt` keeps it for the gallery.
"""

import time

import learndyn as ld
from learndyn.core.facts import known_facts

ROWS = "(L + modes) T³ by rows; panels: a dozen nodes for a decade of time"
GROWTH = {
    "deep_linear/dataset": ROWS,
    "deep_linear/population": ROWS,
    "deep_linear/stream": "(L + modes) T³",
    "residual/dataset": ROWS,
    "residual/population": ROWS,
    "residual/stream": "(L + modes) T³",
    "neural_ode/dataset": "K³, for K = about trajectories × times × steps",
    "neural_ode/stream": "times³ × steps",
    "program/loop": "samples × T × directions",
    "program/points": "samples × T × directions",
    "two_layer/dataset": "samples × T³ K³",
    "two_layer/population": "K² (K + M)² for each of a few hundred slopes",
    "two_layer/stream": "K² (K + M)² for each of a few hundred slopes",
    "wide/points": "L (P T)³ for linear units; samples × L (P T)² otherwise",
}
"""What the time of a solution is proportional to, in T steps; the pages of the theories say more."""
SIZES = {"neural_ode/dataset": 100, "neural_ode/stream": 100}
"""Sizes of networks where 500 is more than the template needs."""
SEEDS = 2


def run() -> None:
    """Print the table."""
    print(
        "| theory | cost grows as | theory [CPU s] | one network [CPU s] | of size | network / theory |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for facts in known_facts():
        problem = _template(facts)
        size = SIZES.get(facts.name, 500)
        ld.solve(problem)
        ld.simulate(problem, size, SEEDS)
        start = time.process_time()
        ld.solve(problem)
        between = time.process_time()
        ld.simulate(problem, size, SEEDS)
        solved, trained = between - start, (time.process_time() - between) / SEEDS
        ratio = trained / solved
        print(
            f"| `{facts.name}` | {GROWTH[facts.name]} | {solved:.2g} | {trained:.2g} | {size} | {ratio:.2g} |",
            flush=True,
        )


def _template(facts) -> ld.Problem:
    """The problem of the template of a theory."""
    if facts.template.suffix == ".toml":
        return ld.Problem.from_toml(facts.template)
    from learndyn.families.program.files import problem_in

    return problem_in(facts.template)
