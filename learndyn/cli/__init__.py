"""The command `learndyn`.

Help comes quickly, because modules here import only what imports quickly: typer, rich, and modules of learndyn that
need neither JAX nor NumPy. Names of `learndyn` itself (`ld.solve`) are imported when they are used. Whatever else a
command computes or draws with is imported inside its functions.
"""

import io
import sys

from learndyn.cli.app import app
from learndyn.cli.stores import compile_quickly, store_compiled


def main() -> None:
    """Run the command with the arguments of the process."""
    compile_quickly()
    store_compiled()
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot show a Greek letter shows a question mark instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="learndyn")
