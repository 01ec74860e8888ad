"""The flow alone: correlations, growth of perturbations and of the adjoint, chaos."""

import functools
import math

import numpy as np
import pytest

import learndyn as ld

pytestmark = pytest.mark.compiles


def network(g1=0.8, g2=0.8, **fields):
    return ld.NeuralODE([[0, 0], [0, g1], [g2 / 2, 0]], 0.75, 1.0, 10, **fields)


@pytest.mark.parametrize(
    ("g2", "norm", "lyapunov"), [(0.8, 1.037644, 0.155078), (3.0, 1.524695, 0.532138)]
)
def test_the_stationary_state_is_known_in_closed_form(g2, norm, lyapunov):
    """C = q sech²(τ√(g_2q/12)), μ² = g_1 + g_2q/3, λ = √(g_1 + ¾g_2q) − μ; numbers as printed, to six digits."""
    found = ld.stationary_flow(network(g2=g2))
    q, mu = found.norm, found.confinement
    assert found.phase == "chaotic"
    np.testing.assert_allclose(mu**2, 0.8 + g2 * q / 3, rtol=1e-10)
    tau = found.correlation["tau"].values
    exact = q / np.cosh(tau * np.sqrt(g2 * q / 12)) ** 2
    np.testing.assert_allclose(found.correlation, exact, atol=1e-9)
    np.testing.assert_allclose(found.lyapunov, np.sqrt(0.8 + 0.75 * g2 * q) - mu, atol=1e-9)
    np.testing.assert_allclose([q, found.lyapunov], [norm, lyapunov], atol=6e-7)


def test_a_students_flow_has_its_own_chaos():
    """A control of norm Q is a teacher with g_1 Q in place of g_1."""
    student = ld.stationary_flow(network(0.8, 3.0), control_norm=0.5)
    teacher = ld.stationary_flow(network(0.4, 3.0))
    np.testing.assert_allclose(student.lyapunov, teacher.lyapunov, rtol=1e-10)


@pytest.mark.slow
def test_perturbations_grow_at_the_lyapunov_exponent():
    """On grids h = 0.1 and 0.05 after a long time; extrapolated to h = 0 it is that of continuous time."""
    net = network(g2=3.0)
    rates = [float(ld.inference(net, time=15.0, steps=n)["growth"][-1]) for n in (150, 300, 600)]
    np.testing.assert_allclose(rates, [0.51255, 0.52212, 0.52707], atol=6e-6)
    limit = (rates[0] - 6 * rates[1] + 8 * rates[2]) / 3
    np.testing.assert_allclose(limit, ld.stationary_flow(net).lyapunov, atol=2e-4)


def test_perturbations_are_differences_of_two_flows():
    """D at h → 0 of one Euler step by hand: δx_1 = a δx_0 + h r'δx_0, ⟨δx_1²⟩ = a² + h²∂_1G(1)."""
    net = network()
    found = ld.inference(net, time=0.2, steps=2)
    h, a = 0.1, 1 - 0.1 * 1.0
    slope = 0.8 + 0.8
    np.testing.assert_allclose(found["D"][0, :2], [1.0, a], rtol=1e-14)
    np.testing.assert_allclose(found["D"][1, 1], a**2 + h**2 * slope, rtol=1e-14)
    np.testing.assert_allclose(found["D"], found["D"].values.T, rtol=1e-13)
    rate = np.log(a**2 + h**2 * slope) / (2 * h)
    np.testing.assert_allclose(found["growth"][0], rate, rtol=1e-12)


def test_the_teacher_alone_is_the_teacher_of_a_problem():
    net = network(noise=0.1)
    problem = ld.Problem(
        net, ld.Stream(ld.TeacherFlow(noise=0.1)), ld.GradientDescent(0.1, steps=1)
    )
    found = ld.solve(problem, ld.OverlapMap(inference_steps=[0]))
    alone = ld.inference(net)
    np.testing.assert_allclose(alone["C"], found["C_xx"][0], rtol=1e-13)
    assert float(alone["R"][3, 4]) == 0
    a = 1 - 0.1 * np.diagonal(alone["C"])
    np.testing.assert_allclose(alone["R"][5, 2], np.prod(a[2:5]), rtol=1e-13)


def test_phases():
    """A field with a large part without state holds the flow at a fixed point; a strong confinement at zero."""
    held = ld.stationary_flow(ld.NeuralODE([[0.5, 0], [0, 0.3]], 1.0, 1.0, 10))
    assert held.phase == "fixed point"
    q = held.norm
    np.testing.assert_allclose(q**3, 0.5 + 0.3 * q, rtol=1e-12)
    np.testing.assert_allclose(held.lyapunov, np.sqrt(0.3) - q, rtol=1e-12)
    np.testing.assert_allclose(held.correlation, q)
    still = ld.stationary_flow(
        ld.NeuralODE(
            [[0, 0], [0, 0.3]], 1.0, 1.0, 10, confinement=ld.Polynomial(np.array([1.0, 1.0]))
        )
    )
    assert (still.phase, still.norm) == ("zero", 0.0)
    np.testing.assert_allclose(still.lyapunov, np.sqrt(0.3) - 1)
    with pytest.raises(ld.NotConverged, match="not confined"):
        ld.stationary_flow(ld.NeuralODE([[0, 0], [0, 1.3]], 1.0, 1.0, 10, confinement=1.0))


@pytest.mark.slow
def test_chaos_with_a_frozen_part():
    """With a part b of the field without state the correlation decays to C(∞) > 0, where μ²C = G(C)."""
    b, g2 = 0.05, 3.0
    net = ld.NeuralODE([[b, 0], [0, 0.8], [g2 / 2, 0]], 0.75, 1.0, 10)
    found = ld.stationary_flow(net)
    assert found.phase == "chaotic"
    floor = float(found.correlation[-1])
    G = b + 0.8 * floor + g2 / 2 * floor**2
    np.testing.assert_allclose(found.confinement**2 * floor, G, rtol=1e-8)
    late = ld.inference(net, time=40.0, steps=800)["C"].values
    np.testing.assert_allclose(late[-1, -1], found.norm, rtol=5e-3)
    np.testing.assert_allclose(late[-1, 400], floor, rtol=0.05)


@pytest.mark.parametrize(
    ("adjoint", "end", "factor"),
    [("true", "random", 1), ("true", "state", 1), ("truncated", "state", 2)],
)
def test_the_adjoint_grows_backwards_at_the_lyapunov_exponent(adjoint, end, factor):
    """On the grid h = 0.1, half way between start and end; a truncated adjoint, which keeps its part along x, at 2λ.

    A perturbation along x at fixed confinement changes C(t, t') by the equation of D: x·δx grows as e^{2λt}. What
    remains of other modes there is of order e^{−2λ·9} (from the end, relative), 1e-4; the flow settles faster.
    """
    found = ld.inference(network(g2=3.0, adjoint=adjoint), time=18.0, steps=180, adjoint_end=end)
    rate = float(found["growth"][-1])
    np.testing.assert_allclose(rate, 0.51255, atol=6e-6)
    half = found["adjoint_growth"].sel(middle=9.0, method="nearest")
    np.testing.assert_allclose(half, factor * rate, atol=np.exp(-2 * rate * 9))


def test_a_random_adjoint_at_the_start_is_a_random_perturbation_at_the_end():
    """|J'p|² and |Jδx|² are both Tr JJ' for random p and δx; for both adjoints, with noise; to rounding of 30 steps."""
    given = {"control_norm": 0.7, "noise": 0.2, "steps": 30, "time": 3.0}
    true, truncated = (
        ld.inference(network(g2=3.0, adjoint=adjoint), **given) for adjoint in ("true", "truncated")
    )
    np.testing.assert_allclose(true["C_pp"][0, 0], true["D"][-1, -1], rtol=1e-12)
    np.testing.assert_array_equal(true["C_pp"], truncated["C_pp"])
    log = np.log(np.diagonal(true["C_pp"]))
    np.testing.assert_allclose(true["adjoint_growth"].sum() * 2 * 0.1, log[0] - log[-1], rtol=1e-12)


def test_perturbation_and_adjoint_of_a_linear_flow_are_known():
    """G = gqm, μ̂ = 1: D(n, n') = Σ_j C(n, j) C(n', j) (1 − h)^{n+n'−2j} (h²gQ)^j, and C_pp is D from the end."""
    g, Q, N, h = 0.6, 1.3, 8, 0.25
    net = ld.NeuralODE([[0, 0], [0, g]], 1.0, N * h, N, confinement=1.0)
    found = ld.inference(net, control_norm=Q)

    def exact(n, k):
        return sum(
            math.comb(n, j) * math.comb(k, j) * (1 - h) ** (n + k - 2 * j) * (h**2 * g * Q) ** j
            for j in range(min(n, k) + 1)
        )

    D = np.array([[exact(n, k) for k in range(N + 1)] for n in range(N + 1)])
    np.testing.assert_allclose(found["D"], D, rtol=1e-13)
    np.testing.assert_allclose(found["C_pp"], D[::-1, ::-1], rtol=1e-13)


@pytest.mark.parametrize("adjoint", ["true", "truncated"])
def test_the_adjoint_of_one_step_by_hand(adjoint):
    """p_0 = a x_1 + h∇⟨x_1, r(x_0)⟩ − 2hμ̂'x_0⟨x_1, x_0⟩/d is (a² + h²G' − 2hμ̂'a) x_0 + ahr + hζ, ⟨ζ²⟩ = G'|x_1|²/d."""
    h, Q, b = 0.3, 1.4, 0.5
    net = ld.NeuralODE(
        [[0, 0.2], [0, 0.8], [1.5, 0]],
        0.75,
        h,
        1,
        adjoint=adjoint,
        confinement=ld.Polynomial(np.array([0.1, 0.2, b / 2])),
        adjoint_noise=0.3,
    )
    C_pp = ld.inference(net, control_norm=Q, adjoint_end="state")["C_pp"].values
    a = 1 - h * (0.1 + 0.2 + b / 2)
    G, slope = 0.2 * Q + 0.8 * Q + 1.5, 0.8 * Q + 3.0
    along = a**2 + h**2 * slope - (2 * h * (0.2 + b) * a if adjoint == "true" else 0.0)
    end = a**2 + h**2 * G
    np.testing.assert_allclose(C_pp[1, 1], end, rtol=1e-14)
    np.testing.assert_allclose(C_pp[0, 1], a * along + a * h**2 * G, rtol=1e-13)
    np.testing.assert_allclose(C_pp[1, 0], C_pp[0, 1], rtol=1e-14)
    start = along**2 + (a * h) ** 2 * G + h**2 * slope * end
    np.testing.assert_allclose(C_pp[0, 0], start, rtol=1e-13)


@functools.cache
def finite_adjoints(d: int, seeds: int) -> dict[tuple[str, str], np.ndarray]:
    """C_pp(n, n) of flows of dimension d with g_1 = 0.8, g_2 = 3, T = 1 and h = 0.1 (seeds × 11), by kind and end."""
    h, N, found = 0.1, 10, {}
    for seed in range(seeds):
        rng = np.random.default_rng([d, seed])
        linear = rng.normal(size=(d, d)) * np.sqrt(0.8 / d)
        square = rng.normal(size=(d, d, d)) * np.sqrt(1.5) / d
        x = rng.normal(size=d)
        x *= np.sqrt(d / (x @ x))
        path, jacobians = [x], []
        for _ in range(N):
            right = square @ x
            jacobians.append(linear + right + np.einsum("ijk,j->ik", square, x))
            x = (1 - h * (x @ x) / d) * x + h * (linear @ x + right @ x)
            path.append(x)
        for end, p_N in (("state", x), ("random", rng.normal(size=d))):
            for adjoint in ("true", "truncated"):
                p = p_N
                sizes = [p @ p / d]
                for y, J in zip(path[-2::-1], jacobians[::-1], strict=True):
                    new = (1 - h * (y @ y) / d) * p + h * (J.T @ p)
                    p = new - 2 * h * y * (p @ y) / d if adjoint == "true" else new
                    sizes.append(p @ p / d)
                found.setdefault((adjoint, end), []).append(sizes[::-1])
    return {kind: np.array(sizes) for kind, sizes in found.items()}


@pytest.mark.parametrize("adjoint", ["true", "truncated"])
@pytest.mark.parametrize("end", ["state", "random"])
def test_the_adjoint_agrees_with_finite_flows(adjoint, end):
    """Extrapolated in 1/d from d = 40 and 80, at all eleven times within 4 standard errors of their fluctuation."""
    small, large = (finite_adjoints(d, n)[adjoint, end] for d, n in ((40, 300), (80, 150)))
    mean = 2 * large.mean(axis=0) - small.mean(axis=0)
    variance = 4 * large.var(axis=0, ddof=1) / len(large) + small.var(axis=0, ddof=1) / len(small)
    C_pp = ld.inference(network(g2=3.0, adjoint=adjoint), adjoint_end=end)["C_pp"]
    assert np.all(np.abs(mean - np.diagonal(C_pp)) < 4 * np.sqrt(variance))


@pytest.mark.parametrize(
    ("adjoint", "known", "digits"), [("true", 10.7, 0.05), ("truncated", 254, 0.5)]
)
def test_the_adjoint_of_a_fresh_student_has_the_known_size(adjoint, known, digits):
    """C_pp at t = 1 of p_N = y_N − x_N, with Q = 1, m = 0, T = 3, h = 0.1, g_2 = 3; to the digits printed."""
    net = ld.NeuralODE([[0, 0], [0, 0.8], [1.5, 0]], 0.75, 3.0, 30, adjoint=adjoint)
    problem = ld.Problem(net, ld.Stream(ld.TeacherFlow()), ld.GradientDescent(0.1, steps=1))
    found = ld.solve(problem, ld.OverlapMap(inference_steps=[0]))
    np.testing.assert_allclose(found["C_pp"][0, 10, 10], known, atol=digits)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("amplitudes", {"amplitudes": [1.0, 1.0]}),
        ("windows", {"windows": 2}),
        ("train_amplitudes", {"train_amplitudes": True}),
        ("driven", {"driven": [[[0, 0], [0, 0.5]], [[0, 0], [0.4, 0]]]}),
    ],
)
def test_networks_of_several_units_are_refused(name, fields):
    net = network(**fields)
    for function in (ld.inference, ld.stationary_flow):
        with pytest.raises(ld.ProblemError, match=rf"network.{name} = .*must be left out"):
            function(net)


def test_a_delay_is_refused():
    net = ld.NeuralODE([[[0, 0], [0, 0.8]], [[0, 0], [0.4, 0]]], 0.75, 1.0, 10, delay=0.2)
    for function in (ld.inference, ld.stationary_flow):
        with pytest.raises(ld.ProblemError, match=r"network.delay = .*must be left out"):
            function(net)


def test_bad_values_are_refused():
    with pytest.raises(ld.ProblemError, match="control_norm = -1"):
        ld.inference(network(), control_norm=-1)
    with pytest.raises(ld.ProblemError, match="steps = 0"):
        ld.inference(network(), steps=0)
    with pytest.raises(ld.ProblemError, match="adjoint_end = 'end'"):
        ld.inference(network(), adjoint_end="end")
