"""Draws images/program-NAME.png for each program in examples/programs: the limit, and ten networks of size 500."""

import sys
from pathlib import Path

import learndyn as ld
from learndyn.families.program.files import problem_in

DOCS = Path(__file__).parent
SIZE, SEEDS = 500, 10


def draw(path: Path) -> None:
    """Draw the picture of one program, and say whether limit and networks agree."""
    problem = problem_in(path)
    theory = ld.solve(problem)
    runs = ld.simulate(problem, SIZE, SEEDS)
    verdict = ld.compare(theory, runs).verdict
    print(f"{path.stem}: {verdict}; solved in {theory.evidence['wall_time']:.1f} s", flush=True)
    ld.plot(theory, runs).savefig(DOCS / "images" / f"program-{path.stem}.png", dpi=70)


if __name__ == "__main__":
    wanted = set(sys.argv[1:])
    for example in sorted((DOCS.parent / "examples" / "programs").glob("*.py")):
        if not wanted or example.stem in wanted:
            draw(example)
