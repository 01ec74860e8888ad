"""Flags of XLA, the compiler behind JAX, that suit tests: they compile much and compute little."""

import importlib.util
import mmap
from pathlib import Path

QUICK_TO_COMPILE = {
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_multi_thread_eigen": "false",
}
"""With these compiling takes about half of the time, and each worker uses one core. A lower level of optimisation would
save a little more, and lose it where networks are trained."""


def quick_to_compile() -> str:
    """The flags, for the environment variable `XLA_FLAGS`; one that XLA does not know would end the process."""
    return " ".join(f"--{flag}={value}" for flag, value in QUICK_TO_COMPILE.items() if _known(flag))


def _known(flag: str) -> bool:
    """Whether the installed XLA has a flag."""
    package = importlib.util.find_spec("jaxlib")
    assert package is not None
    assert package.origin is not None
    folder = Path(package.origin).parent
    for library in (*folder.glob("libjax_common*"), *folder.glob("xla_extension*.so")):
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(flag.encode()) >= 0
    return False
