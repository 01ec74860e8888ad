"""Neural ODEs whose training steps are correlated: reused or chained trajectories, fields with a part without state.

Trajectories of different steps then feel each other through the field and the control, and the theory keeps all
correlations and responses of all steps (`engine.py`). On each step: teacher, student, adjoint, control.
"""

from typing import NamedTuple

import jax
import numpy as np

from learndyn.data import Dataset
from learndyn.memory import require_memory
from learndyn.neural_ode.derivatives import Derivatives
from learndyn.neural_ode.engine import Engine
from learndyn.neural_ode.epoch import flow_of
from learndyn.neural_ode.map import DIVERGED, inference
from learndyn.training import rates


class Path(NamedTuple):
    """The scalars of one trajectory, from its start, and the uses that made them."""

    states: list[int]
    uses: list[int]


class Memory:
    """The engine of one problem, and what it has been fed."""

    def __init__(self, problem, last: int):
        network, data = problem.network, problem.data
        self.network, self.data, self.training = network, data, problem.training
        self.h = network.step
        self.examples, self.batch = counts(data)
        self._mu = jax.jit(network.confinement.__call__)
        self._mu_slope = jax.jit(network.confinement.derivative)
        scalars, uses = size_of(problem, last)
        require_memory(
            16.0 * scalars**2,
            f"{last} correlated training steps",
            "use fewer training steps, steps of the flow, or trajectories",
        )
        self.engine = Engine(
            [Derivatives(network.field)], network.control_ratio, scalars, uses, last + 2
        )
        self.teacher_control = self.engine.control(1.0, {})
        start = self.engine.control(
            network.initial_norm, {self.teacher_control: network.initial_overlap}
        )
        self.controls = [start]
        self.taught: list[Path] = []
        """The teacher's trajectories: the dataset, or the last ones of a stream."""

    def teach(self, step: int) -> list[Path]:
        """The teacher's trajectories of a training step."""
        data = self.data
        if isinstance(data, Dataset):
            if not self.taught:
                self.taught = [self.teacher(self.engine.start()) for _ in range(self.examples)]
            first = step * self.batch % self.examples
            return self.taught[first : first + self.batch]
        if data.chained and self.taught:
            starts = [path.states[-1] for path in self.taught]
        else:
            starts = [self.engine.start() for _ in range(self.batch)]
        self.taught = [self.teacher(start) for start in starts]
        return self.taught

    def teacher(self, start: int) -> Path:
        return self._flow(
            start, self.teacher_control, self.network.teacher_steps, self.network.teacher_noise
        )

    def student(self, start: int) -> Path:
        """A student from where a teacher started; y_0 = x_0 is a scalar of its own, with responses of its own."""
        own = self.engine.linear({start: 1.0})
        return self._flow(own, self.controls[-1], self.network.steps, self.network.noise)

    def _flow(self, start: int, control: int, steps: int, temperature: float) -> Path:
        path = Path([start], [])
        for _ in range(steps):
            s = path.states[-1]
            keep = 1 - self.h * self._confinement(s)
            o, (use,) = self.engine.forward(
                {s: keep}, [(self.h, s, control, 0)], 2 * self.h * temperature
            )
            path.states.append(o)
            path.uses.append(use)
        return path

    def adjoint(self, y: Path, x: Path) -> list[int]:
        """p_0 … p_N of a student's trajectory."""
        engine, h, network = self.engine, self.h, self.network
        p = [engine.linear({y.states[-1]: 1.0, x.states[-1]: -1.0})]
        for n in reversed(range(network.steps)):
            s, later = y.states[n], p[0]
            linear = {later: 1 - h * self._confinement(s)}
            if network.adjoint == "true":
                slope = float(self._mu_slope(self._norm(s)))
                linear[s] = -2 * h * slope * engine.scalars.C[later, s]
            engine.uses.pi[y.uses[n]] = later
            p.insert(0, engine.adjoint(linear, [y.uses[n]], 2 * h * network.adjoint_noise))
        return p

    def update(self, students: list[Path], eta: float) -> None:
        """θ moves by the mean of the trajectories' gradients, with decay."""
        rate = eta / len(students)
        uses = {use: rate for path in students for use in path.uses}
        linear = {self.controls[-1]: 1 - eta * self.training.weight_decay}
        self.controls.append(self.engine.update(linear, uses))

    def loss(self, y: Path, x: Path) -> float:
        C = self.engine.scalars.C
        i, j = y.states[-1], x.states[-1]
        return (C[i, i] + C[j, j] - 2 * C[i, j]) / 2

    def _norm(self, s: int) -> float:
        return self.engine.scalars.C[s, s]

    def _confinement(self, s: int) -> float:
        return float(self._mu(self._norm(s)))


def counts(data) -> tuple[int, int]:
    """Trajectories of a dataset (0 for a stream), and those used in a training step."""
    if isinstance(data, Dataset):
        examples = int(data.examples or 0)
        return examples, data.batch or examples
    return 0, data.batch


def size_of(problem, last: int) -> tuple[int, int]:
    """The most scalars and uses that `last` training steps and one look at the losses after them need."""
    network = problem.network
    N, N_t = network.steps, network.teacher_steps
    examples, B = counts(problem.data)
    taught = examples or (last + 1) * B
    scalars = taught * (N_t + 1) + (last + 1) * B * (2 * N + 2) + N + N_t + 2
    uses = taught * N_t + (last + 1) * B * N + N + N_t
    return scalars, uses


def curves(problem, saved: np.ndarray, report, chosen: tuple[int, ...] = ()) -> tuple[dict, dict]:
    """Q, m, C_θ and losses at the recorded steps, and correlations within the `chosen` ones; as far as they go."""
    last = max([int(saved[-1]), *chosen])
    etas = np.asarray(rates(problem.training, problem.training.steps))
    made = Memory(problem, last)
    own_test = isinstance(problem.data, Dataset) or problem.data.chained
    wanted = set(saved.tolist())
    losses: dict[str, list] = {"train_loss": [], "test_loss": []}
    within: dict[str, list] = {}
    reached = 0
    for a in range(last + 1):
        taught = made.teach(a)
        students = [made.student(path.states[0]) for path in taught]
        train = float(np.mean([made.loss(y, x) for y, x in zip(students, taught, strict=True)]))
        norm = made.engine.controls.C[made.controls[-1], made.controls[-1]]
        if not max(abs(train), abs(norm)) < DIVERGED:
            break
        if a in wanted:
            reached += 1
            losses["train_loss"].append(train)
            losses["test_loss"].append(_test_loss(made) if own_test else train)
        if a == last and a not in chosen:
            break
        adjoints = [made.adjoint(y, x) for y, x in zip(students, taught, strict=True)]
        if a in chosen:
            _look(made, students[0], taught[0], adjoints[0], within)
        if a < last:
            made.update(students, float(etas[a]))
        report(((a + 1) / (last + 1)) ** 3)
    kept = [made.controls[a] for a in saved[:reached]]
    C = made.engine.controls.C
    found = {
        "Q": C[kept, kept],
        "m": C[kept, made.teacher_control],
        "C_theta": C[np.ix_(kept, kept)],
        "test_loss": np.array(losses["test_loss"]),
    }
    if own_test:
        found["train_loss"] = np.array(losses["train_loss"])
    return found, {name: np.stack(rows) for name, rows in within.items()}


def _test_loss(made: Memory) -> float:
    """The loss on a fresh trajectory: from the overlaps alone, unless a part of the field lacks the state."""
    engine = made.engine
    if made.network.field.without_state:
        mark = engine.mark()
        x = made.teacher(engine.start())
        loss = made.loss(made.student(x.states[0]), x)
        engine.rewind(mark)
        return loss
    C, theta = engine.controls.C, made.controls[-1]
    found = inference(flow_of(made.network), C[theta, theta], C[theta, made.teacher_control])
    return float(found["C_pp"][-1, -1]) / 2


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
