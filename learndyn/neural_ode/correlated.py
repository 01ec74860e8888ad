"""Neural ODEs whose training steps are correlated: reused or chained trajectories, fields with a part without state.

Trajectories of different steps then feel each other through the field and the control, and the theory keeps all
correlations and responses of all steps (`engine.py`, `memory.py`). On each step: teacher, student, adjoint, controls,
amplitudes.
"""

import numpy as np

from learndyn.data import Dataset
from learndyn.divergence import diverged
from learndyn.neural_ode.map import both_rates, loss_of
from learndyn.neural_ode.memory import Controls, Memory, Path
from learndyn.neural_ode.units import fields_of


def curves(problem, saved: np.ndarray, report, chosen: tuple[int, ...] = ()) -> tuple[dict, dict]:
    """Overlaps and losses at the recorded steps, and correlations within the `chosen` ones; as far as they go."""
    last = max([int(saved[-1]), *chosen])
    etas = np.asarray(both_rates(problem.training, problem.training.steps))
    made = Memory(problem, last)
    own_test = isinstance(problem.data, Dataset) or problem.data.chained
    wanted = set(saved.tolist())
    every = np.max(made.observed, axis=0)
    losses: dict[str, list] = {"train_loss": [], "test_loss": []}
    within: dict[str, list] = {}
    reached = 0
    for k in range(last + 1):
        taught = made.teach(k)
        students = [made.student(x) for x in taught]
        pairs = list(zip(students, taught, strict=True))
        seen = made.visible * made.observed[k % len(made.observed)]
        train, fresh = (
            float(np.mean([made.loss(y, x, weights) for y, x in pairs]))
            for weights in (seen, every)
        )
        numbers = made.students[-1].numbers
        norm = np.max(np.abs(made.engine.controls.C[numbers, numbers]))
        if np.any(diverged([train, fresh, norm])):
            break
        if k in wanted:
            reached += 1
            losses["train_loss"].append(train)
            losses["test_loss"].append(_test_loss(made, every) if own_test else fresh)
        if k == last and k not in chosen:
            break
        adjoints = [made.adjoint(y, x, k) for y, x in pairs]
        if k in chosen:
            _look(made, students[0][0], taught[0][0], adjoints[0][0], within)
        if k < last:
            made.update(students, *etas[k].tolist())
        report(((k + 1) / (last + 1)) ** 3)
    found = {name: np.array(values) for name, values in losses.items()}
    if not own_test and problem.data.observations is None:
        del found["train_loss"]
    kept = [made.students[k] for k in saved[:reached]]
    return found | _overlaps(made, kept), {name: np.stack(rows) for name, rows in within.items()}


def _overlaps(made: Memory, kept: list[Controls]) -> dict:
    """Amplitudes and overlaps of the recorded units; numbers where there is one."""
    C, units = made.engine.controls.C, len(made.students[0].a)
    numbers = np.array([one.numbers for one in kept], dtype=int).reshape(-1, units)
    flat = numbers.ravel()
    C_theta = C[np.ix_(flat, flat)].reshape(len(kept), units, len(kept), units)
    Q, m = C[numbers[:, :, None], numbers[:, None]], C[numbers[:, :, None], made.teachers.numbers]
    if made.network.one_unit:
        return {"Q": Q[:, 0, 0], "m": m[:, 0, 0], "C_theta": C_theta[:, 0, :, 0]}
    a = np.array([one.a for one in kept]).reshape(-1, units)
    return {"Q": Q, "m": m, "C_theta": C_theta, "a": a}


def _test_loss(made: Memory, every) -> float:
    """The loss on a fresh trajectory: from the overlaps alone, unless a part of a field lacks the state."""
    engine = made.engine
    if any(field.without_state for field in fields_of(made.network)):
        mark = engine.mark()
        x = made.teacher(made._starts())
        loss = made.loss(made.student(x), x, every)
        engine.rewind(mark)
        return loss
    C, now = engine.controls.C, made.students[-1]
    student, teacher = np.array(now.numbers), np.array(made.teachers.numbers)
    return loss_of(made.flow, now.a, C[np.ix_(student, student)], C[np.ix_(student, teacher)])


def _look(made: Memory, y: Path, x: Path, p: list[int], within: dict) -> None:
    """Add the correlations and responses of one trajectory."""
    scalars = made.engine.scalars
    rows = {"x": x.states, "y": y.states, "p": p}
    found = {
        name: (scalars.C if name[0] == "C" else scalars.R)[np.ix_(rows[name[2]], rows[name[3]])]
        for name in ("C_xx", "R_xx", "C_yy", "R_yy", "C_yx", "C_pp", "C_py", "C_px", "R_py", "R_px")
    }
    # A source in x_0 moves y_0 too: what it does through x alone is the difference.
    found["R_px"][:, 0] -= found["R_py"][:, 0]
    for name, values in found.items():
        within.setdefault(name, []).append(values)
