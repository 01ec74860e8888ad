"""The command `learndyn`.

Modules here import typer only; a command imports what it computes with when it runs, so that help
comes quickly.
"""

import io
import sys


def main() -> None:
    """Run the command with the arguments of the process."""
    from learndyn.cli.app import app
    from learndyn.cli.stores import store_compiled

    store_compiled()
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot show a Greek letter shows a question mark instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="learndyn")
