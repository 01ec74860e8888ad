"""The commands, their groups and their help."""

import inspect
import platform
from collections.abc import Callable
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from learndyn.cli import (
    analyses,
    catalogue,
    cite,
    compute,
    demo,
    recipe,
    results,
    run,
    runs,
    sweep,
    warm,
)
from learndyn.cli.console import say
from learndyn.cli.failures import GuardedGroup

HELP = """How a neural network learns, exactly, in the limit where it is large.

learndyn solves the equations of that limit, trains finite networks beside them, and says whether
the two agree. A problem file says which network, which data and which training."""

EPILOG = """[bold]Examples[/bold]

  learndyn new two_layer/stream -o mine.toml   a problem file to start from
  learndyn run mine.toml                       theory, networks, pictures
  learndyn run mine.toml --size 200 --seeds 30 --save-at log:200
  learndyn figures primer-1                    a picture of a paper, made anew

[bold]Exit codes[/bold]

    0  fine; theory and runs agree
    1  theory and runs do not agree (run, compare, demo);
       some points failed (sweep)
    2  bad input or usage
    3  the solver did not converge (sweep: at no point);
       there is not enough memory
   70  a bug in learndyn; LEARNDYN_DEBUG=1 shows the traceback
  130  interrupted; what was finished is saved"""


def _unwrapped(text: str) -> str:
    """Each paragraph on one line, for the terminal to wrap."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


app = typer.Typer(
    name="learndyn",
    cls=GuardedGroup,
    help=_unwrapped(HELP),
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def version() -> None:
    """Print the versions of learndyn, JAX and Python."""
    python = platform.python_version()
    say(f"learndyn {version_of('learndyn')} (jax {version_of('jax')}, Python {python})")


def _version_and_exit(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version_and_exit, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True, envvar="LEARNDYN_DEBUG")] = False,
) -> None:
    pass


def _add(panel: str, function: Callable[..., None], *examples: str) -> None:
    """Make a function a command of the group `panel`, with examples below its help."""
    lines = ["[bold]Examples[/bold]\n", *(f"  learndyn {example}" for example in examples)]
    app.command(
        help=_unwrapped(function.__doc__ or ""),
        rich_help_panel=panel,
        epilog="\n".join(lines) if examples else None,
    )(function)


_PROBLEM = "From a problem file"
_add(_PROBLEM, catalogue.new, "new", "new two_layer/stream -o mine.toml")
_add(
    _PROBLEM,
    run.run,
    "run mine.toml",
    "run mine.toml --size 2000 --seeds 20 --output large",
    "run mine.toml --save-at log:200:0.01 --finite-size 0",
)
_add(
    _PROBLEM,
    compute.solve,
    "solve mine.toml -o theory.nc",
    "solve mine.toml --rtol 1e-11",
    "solve deep.toml --method rows --option bins=128",
)
_add(
    _PROBLEM,
    compute.simulate,
    "simulate mine.toml -o runs.nc --size 784 --seeds 10",
    "simulate mine.toml -o more.nc --first-seed 10 --seeds 10",
    "simulate mine.toml -o chain.nc --size 5000 --method overlap_chain",
)
_add(
    _PROBLEM,
    runs.runs,
    "runs mine.toml log0.csv log1.csv --size 512 --no-half --noise",
    "runs mine.toml all.csv --size 512 --seed run --column test_loss=val/mse --half --no-noise",
)
_add(
    _PROBLEM,
    analyses.rates,
    "rates mine.toml",
)
_add(
    _PROBLEM,
    analyses.transfer,
    "transfer deep.toml --over network.width=0.5,1,2,4 --parameterization mup,ntk -o width.png",
    "transfer deep.toml --over training.steps=50,100,200 --size 400 --check 200",
    "transfer deep.toml --over network.depth=1,2,3 --over data.noise=0,0.5",
)
_add(
    _PROBLEM,
    sweep.sweep,
    "sweep deep.toml --over training.learning_rate=log:0.01:1:20",
    "sweep deep.toml --over network.width=1,2,4 --picture width.png",
    "sweep deep.toml --over network.depth=1,2 --simulate 400 -o depth.nc",
)
_add(
    _PROBLEM,
    recipe.recipe,
    "recipe mine.toml --size 512",
    "recipe mine.toml --size 512 --framework torch -o mine.py",
    "recipe mine.toml --framework optax --parameterization mup",
)
_RESULTS = "From saved results"
_add(_RESULTS, results.compare, "compare theory.nc runs.nc --csv agreement.csv")
_add(
    _RESULTS,
    results.plot,
    "plot theory.nc runs.nc -o curve.png",
    "plot theory.nc runs.nc -o overlaps.pdf --observable Q --observable R",
    "plot sweep.nc -o best.png --kind best --x learning_rate",
)
_add(
    _RESULTS,
    analyses.exponent,
    "exponent theory.nc",
    "exponent runs.nc --offset 0.09 --window 1 --csv exponent.csv -o exponent.png",
)
_add(_RESULTS, cite.cite, "cite theory.nc", "cite two_layer/stream")
_CATALOGUE = "What there is"
_add(_CATALOGUE, catalogue.theories)
_add(_CATALOGUE, catalogue.figures, "figures", "figures primer-1 -o pictures", "figures all")
_add(_CATALOGUE, demo.demo, "demo", "demo --output report.html")
_add(_CATALOGUE, warm.warm, "warm", "warm deep_linear/dataset two_layer/stream")
_add(_CATALOGUE, version)
