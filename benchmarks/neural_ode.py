"""Neural ODEs: the map against training, the theory with memory, plain NumPy, and a map written for one control.

What the members of the family cost, and how the cost grows. Everything on one thread.
"""

import time
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

import learndyn as ld
from benchmarks import one_unit_map
from benchmarks.timing import best, row
from learndyn.families.neural_ode.limit import overlap_map as map
from learndyn.numerics.precision import float64

FIELD = ld.PolynomialField(np.array([[0.0, 0.0], [0.0, 0.8], [0.4, 0.0]]))
"""G(q, m) = 0.8 q m + 0.4 q²."""
MAP, MEMORY = ld.OverlapMap(), ld.TrainingMemory()


def problem(steps: int, epochs: int, data=None, rate: float = 0.1) -> ld.Problem:
    """T = 1, σ = 0.75, μ̂(z) = z, the true gradient."""
    network = ld.NeuralODE(FIELD, control_ratio=0.75, time=1.0, steps=steps)
    return ld.Problem(
        network, data or ld.Stream(ld.TeacherFlow()), ld.GradientDescent(rate, steps=epochs)
    )


def solved(steps: int, epochs: int, method=None, data=None) -> ld.Solution:
    return ld.solve(problem(steps, epochs, data), method)


def _forward(h: float, N: int, Q: float):
    """C, R, a = 1 − hμ of a flow whose control has norm Q."""
    C, R, a = np.zeros((N + 1, N + 1)), np.eye(N + 1), np.zeros(N)
    C[0, 0] = 1.0
    for n in range(N):
        a[n] = 1 - h * C[n, n]
        R[n + 1, : n + 1] = a[n] * R[n, : n + 1]
        drive = h**2 * (0.8 * C[n, : n + 1] * Q + 0.4 * C[n, : n + 1] ** 2)
        for k in range(n + 1):
            C[n + 1, k] = C[k, n + 1] = a[n] * C[n, k] + drive[:k] @ R[k, 1 : k + 1]
        C[n + 1, n + 1] = a[n] * C[n, n + 1] + drive @ R[n + 1, 1 : n + 2]
    return C, R, a


def _one_epoch(h: float, sigma: float, teacher, Q: float, m: float):
    """k, v, n and the loss of one training step, row by row."""
    C_xx, R_xx, _ = teacher
    N = len(C_xx) - 1
    C_yy, R_yy, a = _forward(h, N, Q)
    C_yx = np.zeros_like(C_xx)
    C_yx[0] = C_xx[0]
    for n in range(N):
        drive = h**2 * (0.8 * C_yx[n, :N] * m + 0.4 * C_yx[n, :N] ** 2)
        C_yx[n + 1] = a[n] * C_yx[n] + R_xx[:, 1:] @ drive
    by_state_y, by_state_x = 0.8 * Q + 0.8 * C_yy, 0.8 * m + 0.8 * C_yx
    R_py, R_px, C_py, C_px, C_pp = (np.zeros((N + 1, N + 1)) for _ in range(5))
    R_py[N], R_px[N] = R_yy[N], -R_xx[N]
    C_py[N], C_px[N] = C_yy[N] - C_yx[:, N], C_yx[N] - C_xx[N]
    C_pp[N, N] = C_yy[N, N] + C_xx[N, N] - 2 * C_yx[N, N]
    for n in reversed(range(N)):
        w_y = h**2 * R_py[n + 1, 1:] * by_state_y[n, :N]
        w_y[n] -= 2 * h * C_py[n + 1, n]
        w_x = h**2 * R_px[n + 1, 1:] * by_state_x[n, :N]
        R_py[n] = a[n] * R_py[n + 1] + w_y @ R_yy[:N]
        R_px[n] = a[n] * R_px[n + 1] + w_x @ R_xx[:N]
        C_py[n] = a[n] * C_py[n + 1] + w_y @ C_yy[:N] + w_x @ C_yx[:, :N].T
        C_px[n] = a[n] * C_px[n + 1] + w_y @ C_yx[:N] + w_x @ C_xx[:N]
        for k in range(N, n - 1, -1):
            noise = h**2 * (C_pp[n + 1, k + 1 :] * by_state_y[n, k:N]) @ R_yy[k:N, k]
            known = a[n] * C_pp[n + 1, k] + w_y @ C_py[k, :N] + w_x @ C_px[k, :N]
            C_pp[n, k] = C_pp[k, n] = known + noise
    scale = h**2 / sigma * 0.8
    return (
        scale * np.sum(R_py[1:, 1:] * C_yy[:N, :N]),
        -scale * np.sum(R_px[1:, 1:] * C_yx[:N, :N]),
        scale * np.sum(C_pp[1:, 1:] * C_yy[:N, :N]),
        C_pp[N, N] / 2,
    )


def plain(steps: int, epochs: int, rate: float = 0.1, sigma: float = 0.75) -> np.ndarray:
    """Q, m and the loss before every step (epochs + 1 × 3), transcribed without JAX."""
    teacher, Q, m, found = _forward(1 / steps, steps, 1.0), 1.0, 0.0, []
    for _ in range(epochs + 1):
        k, v, n, loss = _one_epoch(1 / steps, sigma, teacher, Q, m)
        found.append([Q, m, loss])
        A, pull = 1 - rate * k, rate * v
        Q, m = A**2 * Q + 2 * A * pull * m + pull**2 + rate**2 * n, A * m + pull
    return np.array(found)


def first_call(steps: int, epochs: int) -> float:
    """Seconds of a solution when nothing is compiled."""
    jax.clear_caches()
    start = time.perf_counter()
    solved(steps, epochs)
    return time.perf_counter() - start


def against_training(steps: int, epochs: int, size: int) -> None:
    """One finite field, drawn and trained, with the losses of every step."""
    fresh = first_call(steps, epochs)
    seconds = best(lambda: solved(steps, epochs))
    training = best(lambda: ld.simulate(problem(steps, epochs), size, 1), 2)
    what, reference = f"map, N = {steps}, {epochs} steps", f"training one field, d = {size}"
    row(what, seconds, reference, training)
    row(f"{what}, compiled first", fresh, reference, training)


def against_memory(steps: int, epochs: int) -> None:
    """The theory of correlated steps on fresh trajectories, where it must give the same curve."""
    seconds = best(lambda: solved(steps, epochs, MAP))
    reference = best(lambda: solved(steps, epochs, MEMORY), 2)
    row(f"map, N = {steps}, {epochs} steps", seconds, "the memory of all steps", reference)
    apart = solved(steps, epochs, MAP)["C_theta"] - solved(steps, epochs, MEMORY)["C_theta"]
    print(f"    C_θ of the two differs by {float(np.max(np.abs(apart))):.1g}")


def against_plain(steps: int, epochs: int) -> None:
    """The same equations in NumPy, row by row."""
    theory = solved(steps, epochs)
    seconds = best(lambda: solved(steps, epochs))
    reference = best(lambda: plain(steps, epochs), 2)
    row(f"map, N = {steps}, {epochs} steps", seconds, "NumPy, row by row", reference)
    curves = np.stack([np.ravel(theory[name]) for name in ("Q", "m", "test_loss")], axis=1)
    print(f"    the two differ by {np.max(np.abs(curves - plain(steps, epochs))):.1g}")


def against_one_unit(steps: int, epochs: int) -> None:
    """The map of the family, asked for one control, against one written for it, both of them compiled.

    First the training steps alone, then the whole call, which also prepares them, runs them in pieces that are watched
    for divergence, and records.
    """
    asked = problem(steps, epochs)
    saved = np.array([0, epochs])
    with float64():
        made = map.map_inputs(asked, saved)
        x = map.teacher_of(made.flow)
        etas = jnp.full((epochs + 1, 2), asked.training.learning_rate)
        compiled = eqx.filter_jit(map.steps)

    def trained():
        given = (made.flow, x, made.rule, made.start, made.M_saved, etas, 0, jnp.asarray(saved))
        with float64():
            return jax.block_until_ready(compiled(*given))[2]

    def whole():
        with float64():
            return map.curves(asked, saved, lambda done: None)

    def special():
        return jax.block_until_ready(one_unit_map.curves(asked))

    found, expected = trained(), special()
    shown = {"test_loss": found["test_loss"], "Q": found["Q"][:, 0, 0], "m": found["m"][:, 0, 0]}
    apart = max(float(np.max(np.abs(shown[name] - expected[name]))) for name in shown)
    if not apart < 1e-12:
        raise AssertionError(f"the two maps differ by {apart:.1g}")
    whole()
    # Turn by turn, so that all meet the same load of the machine.
    turns = [[best(one, 1) for one in (trained, whole, special)] for _ in range(9)]
    steps_alone, in_all, reference = np.min(turns, axis=0)
    what, words = f"map, N = {steps}, {epochs} steps", "one written for one control"
    row(what, steps_alone, words, reference)
    row(f"{what}, the whole call", in_all, words, reference)
    print(f"    the two differ by {apart:.1g}")


def family(steps: int, epochs: int) -> None:
    """What members of the family cost, in units of one neuron with one window."""
    context = ld.PolynomialField(np.array([[[0.0, 0.0], [0.0, 0.4]], [[0.0, 0.0], [0.4, 0.4]]]))
    members: dict[str, dict] = {
        "one neuron": {},
        "3 neurons of own fields": {"amplitudes": [1.0] * 3},
        "3 neurons of one field": {
            "amplitudes": [1.0] * 3,
            "own_fields": False,
        },
        "2 windows": {"windows": 2},
        "a delay": {"field": context, "delay": 0.5},
        "a stack": {"driven": context},
    }
    asked = []
    for settings in members.values():
        given = {"field": FIELD, "control_ratio": 0.75, "time": 1.0, "steps": steps} | settings
        teacher = ld.TeacherFlow(amplitudes=given.get("amplitudes"))
        asked.append(
            ld.Problem(
                ld.NeuralODE(**given),
                ld.Stream(teacher),
                ld.GradientDescent(0.1, steps=epochs),
            )
        )
        ld.solve(asked[-1], save_at=2)
    turns = [[best(lambda p=p: ld.solve(p, save_at=2), 1) for p in asked] for _ in range(5)]
    first, *others = np.min(turns, axis=0)
    for name, seconds in zip(list(members)[1:], others, strict=True):
        row(f"{name}, N = {steps}, {epochs} steps", seconds, "one neuron", first)


def many_neurons(counts=(1, 4, 16, 32, 64), steps: int = 8, epochs: int = 160, field=FIELD) -> None:
    """Compile time (the first call) and step time for student and teacher of many neurons in one field.

    Nothing is compiled before a first call, and no cache on disk is used. All times are CPU time and printed as ratios
    to the first of the counts; the steps are timed in turns, so that all counts meet the same load of the machine.
    """
    first_calls, calls = [], []
    for count in counts:
        amplitudes = list(np.linspace(0.8, 1.2, count))
        network = ld.NeuralODE(
            field,
            control_ratio=0.75,
            time=1.0,
            steps=steps,
            amplitudes=amplitudes,
            own_fields=False,
            initial_overlap=0.1,
        )
        training = ld.GradientDescent(0.1, steps=epochs)
        asked = ld.Problem(network, ld.Stream(ld.TeacherFlow(amplitudes=amplitudes)), training)
        jax.clear_caches()
        start = time.process_time()
        calls.append(compiled_steps(asked, epochs))
        calls[-1]()
        first_calls.append(time.process_time() - start)
        print(f"  {count:>3} neurons: first call {first_calls[-1]:.1f} s", flush=True)
    turns = np.array([[_cpu_seconds(call) for call in calls] for _ in range(9)])
    seconds = turns.min(axis=0) / epochs
    for count, compile_time, step in zip(counts, first_calls, seconds, strict=True):
        print(
            f"  {count:>3} neurons: first call {compile_time:6.2f} s = {compile_time / first_calls[0]:5.2f}, "
            f"step {step * 1e6:7.1f} µs = {step / seconds[0]:5.2f} times that of {counts[0]}"
        )


def compiled_steps(asked: ld.Problem, epochs: int):
    """A function that trains for so many steps in one compiled call."""
    saved = np.array([0, epochs])
    with float64():
        setting = map.map_inputs(asked, saved)
        x = eqx.filter_jit(map.teacher_of)(setting.flow)
        etas = jnp.full((epochs, 2), asked.training.learning_rate)
    compiled = eqx.filter_jit(map.steps)

    def call():
        with float64():
            return jax.block_until_ready(
                compiled(
                    setting.flow,
                    x,
                    setting.rule,
                    setting.start,
                    setting.M_saved,
                    etas,
                    0,
                    jnp.asarray(saved),
                )
            )

    return call


def _cpu_seconds(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def power(what: str, sizes, run, repeat: int = 3) -> None:
    """The exponent of the time, fitted to all sizes and between the largest two; the first call compiles."""
    seconds = [best(lambda size=size: run(size), repeat) for size in sizes]
    fitted = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    last = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
    shown = ", ".join(f"{size}: {value:.2g} s" for size, value in zip(sizes, seconds, strict=True))
    print(f"  {what:<44} time ∝ size^{fitted:.1f}, at last {last:.1f} ({shown})")


def run() -> None:
    one_core = mock.patch("os.cpu_count", return_value=1)
    with one_core, threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        against_training(10, 100, 150)
        against_memory(10, 30)
        against_plain(10, 100)
        against_plain(40, 50)
        for steps in (8, 20, 50):
            against_one_unit(steps, 320)
        for steps in (8, 20):
            family(steps, 320)
        many_neurons()
        power("map, against N, 31 steps", [20, 40, 80, 160], lambda N: solved(N, 31))
        power("map, against training steps, N = 20", [127, 511, 2047], lambda E: solved(20, E))
        power("memory, against N, 10 steps", [10, 20, 40], lambda N: solved(N, 10, MEMORY), 2)
        one = ld.Dataset(ld.TeacherFlow(), examples=1)
        words, counts = "memory, against training steps, N = 5", [40, 80, 160]
        power(words, counts, lambda E: solved(5, E, data=one), 2)
