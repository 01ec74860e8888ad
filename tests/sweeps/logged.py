"""For programs that tests run: a theory that writes a line to a file when it starts and when it finishes a point.

Worker processes know it by the entry point of a package that the tests make.
"""

import json
import os
import time
from pathlib import Path

import learndyn as ld
from learndyn.core import theory as registry
from learndyn.loading import load_theories
from tests.fakes import Fake

LOG, SECONDS = os.environ["LOGGED_FILE"], float(os.environ["LOGGED_SECONDS"])


def write(*words) -> None:
    """One line; the system puts lines of several processes one after the other."""
    handle = os.open(LOG, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


def logged(problem) -> None:
    """What is done before the loss exp(−ηt) is returned."""
    rate = problem.training.learning_rate
    write("started", os.getpid(), rate)
    time.sleep(SECONDS)
    write("finished", os.getpid(), rate)


# Where this module is imported as a theory, the others are there, and this does nothing.
load_theories()
registry.register(Fake(before=logged).in_place_of(registry._theories["two_layer/stream"]))


def problem() -> ld.Problem:
    data = ld.Stream(ld.Teacher("erf", [[1.0]]))
    network = ld.TwoLayer("erf", [[0.5]], [[0.1]])
    return ld.Problem(network, data, ld.GradientDescent(1.0, time=2.0))


def main(rates: list[float], sweeps: list[dict], together: int = 1) -> None:
    """Sweeps over `rates`, one after the other, with these options; printed as JSON.

    They begin when so many programs are ready as shall run `together`.
    """
    write("ready", os.getpid(), 0)
    while Path(LOG).read_text().count("ready") < together:
        time.sleep(0.01)
    found = []
    for options in sweeps:
        over = {"training.learning_rate": rates}
        swept = ld.sweep(problem(), over, save_at=5, **options)
        write("swept", os.getpid(), 0)
        found.append(
            {
                "evidence": swept.evidence,
                "loss": swept["test_loss"].values.tolist(),
                "rates": swept["learning_rate"].values.tolist(),
                "errors": swept["error"].values.tolist(),
            }
        )
    print(json.dumps(found))
