"""What is too large for the memory is refused before it is run, with what would fit; what takes long is told before."""

import re
from types import SimpleNamespace

import psutil
import pytest

import learndyn as ld
from learndyn.sampling import forecast
from tests import problems

WIDE = problems.wide(depth=2, activation="tanh", steps=4)
DATASET = {"supply": "dataset", "ratio": 1.5, "rate": 0.3, "steps": 6}
REUSED = {
    "traced": problems.two_layer(activation="erf", **DATASET),
    "revealed": problems.two_layer(activation="relu", **DATASET),
}


def with_free_memory(monkeypatch, megabytes):
    free = SimpleNamespace(available=megabytes * 2**20, total=megabytes * 2**20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)


def would_fit(refused):
    """The number in the words of a refusal."""
    return int(re.findall(r"(\d+) (?:samples|states) would fit", str(refused.value))[0])


def never(*arguments, **options):
    raise AssertionError("batches were begun")


def test_samples_of_wide_networks_that_do_not_fit_are_refused(monkeypatch):
    with_free_memory(monkeypatch, 40)
    words = "2 batches of 65536 samples needs about"
    with pytest.raises(ld.NotEnoughMemory, match=words) as refused:
        ld.solve(WIDE, ld.SampledLayers(samples=65536, batches=2))
    samples = would_fit(refused)
    assert 1024 <= samples < 65536
    ld.solve(WIDE, ld.SampledLayers(samples=samples, batches=2))


def test_kernels_at_more_states_than_fit_are_refused(monkeypatch):
    """Before any batch, even of the pilot; as many as would fit are not refused."""
    asked, method = problems.wide(depth=2, steps=4000), ld.SampledLayers(samples=64, batches=2)
    with_free_memory(monkeypatch, 100)
    with monkeypatch.context() as patch:
        patch.setattr(ld.SampledLayers, "_sampled", never)
        with pytest.raises(ld.NotEnoughMemory, match="kernels of 4 points at 4001") as refused:
            ld.solve(asked, method, save_at=4001)
        with pytest.raises(AssertionError, match="begun"):
            ld.solve(asked, method, save_at=would_fit(refused))


@pytest.mark.parametrize("inputs", REUSED)
def test_samples_of_a_reused_dataset_that_do_not_fit_are_refused(monkeypatch, inputs):
    with_free_memory(monkeypatch, 30)
    with pytest.raises(ld.NotEnoughMemory, match="6 steps with 1048576 samples") as refused:
        ld.solve(REUSED[inputs], ld.CausalSampling(samples=2**20))
    samples = would_fit(refused)
    assert 64 <= samples < 2**20
    solution = ld.solve(REUSED[inputs], ld.CausalSampling(samples=samples, batches=2))
    assert solution.evidence["inputs"] == inputs


def test_recorded_times_of_a_reused_dataset_that_do_not_fit_with_any_samples(monkeypatch):
    with_free_memory(monkeypatch, 1)
    long = REUSED["traced"].with_values(training=ld.GradientDescent(0.3, steps=200))
    with pytest.raises(ld.NotEnoughMemory, match="use larger steps or fewer recorded times"):
        ld.solve(long, save_at=201)


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        pytest.param(WIDE, ld.SampledLayers(samples=8192, batches=2), id="wide"),
        pytest.param(REUSED["traced"], ld.CausalSampling(samples=256, batches=2), id="traced"),
        pytest.param(REUSED["revealed"], ld.CausalSampling(samples=8192, batches=2), id="revealed"),
    ],
)
def test_what_takes_long_is_told_before(monkeypatch, capsys, asked, method):
    """Times that are worth saying are patched to none at all; without a progress bar nothing is said."""
    monkeypatch.setattr(forecast, "WORTH_SAYING", 0.0)
    ld.solve(asked, method, progress=True)
    words = rf"^2 batches of {method.samples} samples: about [\d.e+-]+ s, [\d.e+]+ MB$"
    assert re.search(words, capsys.readouterr().err, re.MULTILINE)
    ld.solve(asked, method)
    assert capsys.readouterr().err == ""
