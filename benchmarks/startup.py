"""The first minute: importing, the command, and the first and the second solution of every theory.

With BEFORE=FOLDER, the checkout of another version, each is measured there too, just before it is measured here.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from learndyn.core.facts import known_facts

HERE = Path(__file__).parents[1]
COMMAND = "from learndyn.cli import main; main()"
QUICK = {
    "import learndyn": ["import learndyn"],
    "learndyn --help": [COMMAND, "--help"],
    "learndyn version": [COMMAND, "version"],
    "learndyn theories": [COMMAND, "theories"],
    "learndyn new": [COMMAND, "new", "two_layer/stream", "--force", "-o", "any.toml"],
}


def seconds(place: Path, folder: Path, *words: str) -> float:
    """CPU seconds of Python with the package of a checkout, its caches in `folder`; NaN if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    caches = {"LEARNDYN_CACHE_DIR": str(folder / "jax"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    before = os.times()
    process = subprocess.run(
        [sys.executable, "-c", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(place)} | caches,
        capture_output=True,
        check=False,
    )
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return float("nan") if process.returncode else used


def compare(what: str, measured: list[float]) -> None:
    """One line: CPU seconds here, and as a part of those of the other version."""
    before = (
        f", {measured[1] / measured[0]:.2f} of {measured[0]:.2f} s before" if measured[1:] else ""
    )
    print(f"  {what:<44} {measured[-1]:6.2f} s{before}", flush=True)


def run() -> None:
    places = [Path(os.environ["BEFORE"]).resolve()] if "BEFORE" in os.environ else []
    places.append(HERE)
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary, str(number)) for number in range(len(places))]
        both = list(zip(places, folders, strict=True))
        for what, words in {"import jax": ["import jax"], **QUICK}.items():
            # The first import also compiles the modules.
            compare(what, [min(seconds(*x, *words) for _ in range(3)) for x in both])
        for facts in known_facts():
            file = f"problem{facts.template.suffix}"
            caches = [(place, folder / facts.name) for place, folder in both]
            for x in caches:
                seconds(*x, COMMAND, "new", facts.name, "-o", file)
            for turn in ("first", "second"):
                words = [COMMAND, "solve", file, "-o", f"{turn}.nc"]
                compare(
                    f"learndyn solve {facts.name}, {turn}", [seconds(*x, *words) for x in caches]
                )
