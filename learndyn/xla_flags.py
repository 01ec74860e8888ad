"""Flags of XLA, the compiler behind JAX, for processes that learndyn starts itself. The library leaves them alone."""

import importlib.util
import mmap
from pathlib import Path

VARIABLE = "XLA_FLAGS"
"""The environment variable that XLA reads when JAX first computes."""
QUICK_TO_COMPILE = {"xla_cpu_use_fusion_emitters": "false"}
"""Compiling takes a third to a half less, and what is compiled runs as fast: two-layer networks of 24 units, and neural
ODEs in training, even took a tenth less."""
ONE_CORE = {"xla_cpu_multi_thread_eigen": "false", "xla_cpu_parallel_codegen_split_count": "1"}
"""For processes that share the cores with others like them: one thread computes and compiles. A program that is not cut
into 32 parts for as many threads compiles in a sixth less."""


def as_text(flags: dict[str, str]) -> str:
    """The flags that the installed XLA has, as the environment variable takes them; any other would end the process."""
    return " ".join(f"--{flag}={value}" for flag, value in flags.items() if _known(flag))


def _known(flag: str) -> bool:
    """Whether the installed XLA has a flag: its name is a C string of the library.

    Names of flags that are gone stand there, too, but within a description of messages, where no zero follows.
    """
    package = importlib.util.find_spec("jaxlib")
    if package is None or package.origin is None:
        return False
    folder = Path(package.origin).parent
    for library in (*folder.glob("libjax_common*"), *folder.glob("xla_extension*.so")):
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            return text.find(flag.encode() + b"\0") >= 0
    return False
