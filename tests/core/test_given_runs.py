"""Networks trained elsewhere: `runs` and `runs.from_csv`."""

import numpy as np
import pandas as pd
import pytest

import learndyn as ld
from learndyn.core.theory import theory_for
from learndyn.errors import FileError, ProblemError, UnknownObservable
from learndyn.report.chapter import Chapter
from learndyn.report.page import html_report

SIZE, SEEDS = 60, 4


@pytest.fixture(scope="module")
def deep():
    """A deep linear problem with two outputs, its theory and its networks."""
    problem = ld.Problem(
        ld.DeepLinear(depth=1, width=1.0, outputs=2),
        ld.Dataset(ld.LinearMap(), ratio=2.0, noise=0.5),
        ld.GradientDescent(learning_rate=0.1, steps=20),
    )
    return problem, ld.solve(problem), ld.simulate(problem, SIZE, SEEDS)


@pytest.fixture(scope="module")
def online():
    """A two-layer problem in time t = steps/N, whose test loss is ½(y − f)² on clean labels."""
    problem = ld.Problem(
        ld.TwoLayer("erf", Q=[[0.25]], R=[[0.05]]),
        ld.Stream(ld.Teacher.orthonormal("erf", hidden=1), noise=0.3),
        ld.GradientDescent(learning_rate=1.0, time=2.0),
    )
    return problem, ld.simulate(problem, SIZE, SEEDS, save_at=5)


def same(mine: ld.Solution, theirs: ld.Solution, *names: str) -> None:
    for name in names:
        np.testing.assert_allclose(mine[name].values, theirs[name].values, rtol=1e-12)
        assert mine[name].dims == theirs[name].dims
        assert mine[name].attrs == theirs[name].attrs


def test_given_runs_are_what_simulate_gives(deep, tmp_path):
    problem, theory, simulated = deep
    arrays = {name: simulated[name].values for name in ("test_loss", "train_loss", "C_g")}
    mine = ld.runs(
        problem, arrays, size=SIZE, steps=range(21), half=False, noise=True, outputs="sum"
    )
    same(mine, simulated, "test_loss", "train_loss", "C_g")
    assert mine.is_simulation
    assert mine.size == SIZE
    assert mine.evidence.limiting_size == simulated.evidence.limiting_size
    assert mine.evidence["conventions"] == {"half": False, "noise": True, "outputs": "sum"}
    mine.save(tmp_path / "mine.nc")
    loaded = ld.load(tmp_path / "mine.nc")
    ours, theirs = ld.compare(theory, loaded), ld.compare(theory, simulated)
    for name in arrays:
        assert ours.table.loc[name].equals(theirs.table.loc[name])
    assert len(ld.plot(theory, loaded).axes) > 0


def test_losses_are_converted_to_the_convention_of_the_theory(deep):
    """½ · mean over two outputs, clean: (loss − 2σ²)/4 in the log is loss in the theory."""
    problem, _, simulated = deep
    clean = (simulated["test_loss"].values - 2 * 0.5**2) / 4
    mine = ld.runs(
        problem, {"test_loss": clean}, size=SIZE, steps=range(21), half=True, noise=False, outputs="mean"
    )  # fmt: skip
    same(mine, simulated, "test_loss")
    noisy = {"train_loss": simulated["train_loss"].values / 2}
    mine = ld.runs(
        problem, noisy, size=SIZE, steps=range(21), half=False, noise=False, outputs="mean"
    )
    same(mine, simulated, "train_loss")  # the noise of a test says nothing about training


def test_steps_become_times_where_time_is_steps_over_size(online):
    problem, simulated = online
    # The theory is clean and has the half: the log has neither.
    log = {"test_loss": 2 * simulated["test_loss"].values + 0.3**2}
    steps = np.rint(simulated["time"].values * SIZE)
    mine = ld.runs(problem, log, size=SIZE, steps=steps, half=False, noise=True)
    same(mine, simulated, "test_loss")
    np.testing.assert_allclose(mine["time"].values, simulated["time"].values)


def test_losses_of_points_are_means_or_sums():
    problem = ld.Problem(
        ld.Wide(depth=1, activation="linear"),
        ld.Points.random(points=4, dimension=8, test_points=3),
        ld.GradientDescent(learning_rate=0.1, steps=3, loss="sum"),
    )
    simulated = ld.simulate(problem, size=30, seeds=2)
    log = {
        "train_loss": simulated["train_loss"].values / 4,
        "test_loss": simulated["test_loss"].values / 3,
    }
    mine = ld.runs(problem, log, size=30, steps=range(4), half=True, points="mean")
    same(mine, simulated, "train_loss", "test_loss")
    with pytest.raises(ProblemError, match="points = None: must be given"):
        ld.runs(problem, log, size=30, steps=range(4), half=True)


@pytest.mark.parametrize("left_out", ["half", "noise", "outputs"])
def test_conventions_are_asked_for(deep, left_out):
    problem, _, simulated = deep
    stated = {"half": False, "noise": True, "outputs": "sum"}
    del stated[left_out]
    log = {"test_loss": simulated["test_loss"].values}
    with pytest.raises(ProblemError, match=f"{left_out} = None: must be given, because test_loss"):
        ld.runs(problem, log, size=SIZE, steps=range(21), **stated)


def test_a_curve_ends_where_it_is_not_finite(deep):
    problem, _, simulated = deep
    losses = simulated["train_loss"].values.copy()
    losses[2, 15:] = np.nan
    mine = ld.runs(
        problem, {"train_loss": losses}, size=SIZE, steps=range(21), half=False, outputs="sum"
    )
    assert mine.diverged_at == 15
    assert np.isnan(mine["train_loss"].values[2, 15:]).all()
    np.testing.assert_array_equal(mine["train_loss"].values[:2], losses[:2])


BAD = [
    ({"steps": [0, 2, 1]}, "must increase, but 2 is followed by 1"),
    ({"steps": [0, 1, 99]}, "steps must increase and lie between 0 and 20"),
    ({"steps": None, "times": [0, 1, 2]}, "give steps: this training is counted in steps"),
    ({"times": [0, 1, 2]}, "give one of the two"),
    ({"steps": [0, 1]}, "must have one value for each of the 2 steps or times; it has 3"),
    ({"arrays": {"loss": [1.0, 2.0, 3.0]}}, "no observable 'loss'"),
    ({"arrays": {"train_loss": ["a", "b", "c"]}}, "must be an array of numbers"),
    ({"arrays": {"train_loss": np.ones((2, 2, 3))}}, "must have the axes step"),
    ({"arrays": {"train_loss": np.ones((2, 3)), "C_v": np.ones((3, 3, 2, 3, 2))}}, "equally many"),
    ({"arrays": {}}, "at least one observable"),
    ({"seeds": [1, 1]}, "must be 2 different numbers"),
    ({"arrays": {"train_loss": np.full((2, 3), np.nan)}}, "no finite value at its start"),
    ({"half": 0.5}, "half = 0.5: must be true or false"),
    ({"size": 0}, "size = 0"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_runs_are_refused_in_a_sentence(deep, change, message):
    given = {
        "arrays": {"train_loss": np.ones((2, 3))},
        "size": SIZE,
        "steps": [0, 1, 2],
        "half": False,
        "outputs": "sum",
    }
    with pytest.raises((ProblemError, UnknownObservable)) as error:
        ld.runs(deep[0], **(given | change))
    assert message in str(error.value)


def log_of(simulated: ld.Solution, seed: int, noise: float) -> pd.DataFrame:
    """A log in the manner of PyTorch: mean squared errors, with the test loss on clean labels every second step."""
    test = simulated["test_loss"].values[seed] / 2 - noise**2
    test[1::2] = np.nan
    return pd.DataFrame(
        {"step": range(21), "train": simulated["train_loss"].values[seed] / 2, "val": test}
    )


CSV = {"size": SIZE, "half": False, "noise": False, "outputs": "mean"}
COLUMNS = {"test_loss": "val", "train_loss": "train"}


def test_logs_are_read_one_file_for_each_network_or_all_in_one(deep, tmp_path):
    problem, theory, simulated = deep
    logs = [log_of(simulated, seed, 0.5) for seed in range(SEEDS)]
    paths = [tmp_path / f"log{seed}.csv" for seed in range(SEEDS)]
    for path, log in zip(paths, logs, strict=True):
        log.to_csv(path, index=False)
    mine = ld.runs.from_csv(problem, paths, columns=COLUMNS, **CSV)
    assert mine["step"].values.tolist() == list(range(0, 21, 2))
    every = simulated.data.isel(step=slice(None, None, 2))
    np.testing.assert_allclose(mine["test_loss"].values, every["test_loss"].values)
    np.testing.assert_allclose(mine["train_loss"].values, every["train_loss"].values)
    assert ld.compare(theory, mine).agrees
    joined = pd.concat([log.assign(run=seed + 5) for seed, log in enumerate(logs)])
    joined.to_csv(tmp_path / "all.csv", index=False)
    together = ld.runs.from_csv(
        problem, tmp_path / "all.csv", columns=COLUMNS, seed="run", step="step", **CSV
    )
    assert together.evidence.seeds == [5, 6, 7, 8]
    np.testing.assert_array_equal(together["test_loss"].values, mine["test_loss"].values)
    # Without `columns`, those that have the names of observables.
    renamed = joined.rename(columns={"val": "test_loss"})
    renamed.to_csv(tmp_path / "named.csv", index=False)
    named = ld.runs.from_csv(problem, tmp_path / "named.csv", seed="run", **CSV)
    assert named.observables == ["test_loss"]


def test_a_loss_that_is_nan_in_a_log_ends_its_curve(deep, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,test_loss,run\n0,1,0\n1,,0\n2,2,0\n3,4,0\n0,1,1\n2,inf,1\n3,nan,1\n")
    mine = ld.runs.from_csv(deep[0], path, seed="run", **CSV)
    assert mine.diverged_at == 2
    assert mine["step"].values.tolist() == [0, 2, 3]
    assert np.isnan(mine["test_loss"].values[1, 1:]).all()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("step,val\n0,1\n1,2\n", {}, "has no column that is called like an observable"),
        ("step,val\n0,1\n1,2\n", {"columns": {"test_loss": "vall"}}, "has no column 'vall'; did you mean 'val'"),
        ("epoch,test_loss\n0,1\n1,2\n", {}, "has no column 'step'"),
        ("step,test_loss\n0,1\n0,2\n", {}, "must increase, but 0 is followed by 0"),
        ("step,test_loss\n0,high\n1,low\n", {}, "has entries that are not numbers: could not convert"),
        ("step,test_loss\n0,\n1,\n", {}, "has no row in which all of step, test_loss are given"),
        ("step,test_loss,run\n0,1,0\n1,1,0\n0,1,1\n2,1,1\n", {"seed": "run"}, "not measured at the same values"),
        ("step,test_loss,run\n0,1,0.5\n1,1,0.5\n", {"seed": "run"}, "seed 0.5 is not a whole number"),
        ("", {}, "cannot be read as a table"),
    ],
)  # fmt: skip
def test_bad_logs_are_refused_in_a_sentence(deep, tmp_path, text, options, message):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises((FileError, ProblemError)) as error:
        ld.runs.from_csv(deep[0], path, **(CSV | options))
    assert message in str(error.value)


def test_a_log_that_is_not_there(deep, tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        ld.runs.from_csv(deep[0], tmp_path / "none.csv", **CSV)
    with pytest.raises(ProblemError, match="at least one file"):
        ld.runs.from_csv(deep[0], [], **CSV)


def test_a_report_takes_given_runs_like_simulated_ones(deep):
    problem, theory, simulated = deep
    log = {"train_loss": simulated["train_loss"].values}
    mine = ld.runs(problem, log, size=SIZE, steps=range(21), half=False, outputs="sum")
    comparison = ld.compare(theory, mine)
    chapter = Chapter(theory_for(problem), problem.to_text(), theory, mine, comparison)
    page = html_report([chapter])
    assert "train_loss" in page
    assert comparison.verdict in page
