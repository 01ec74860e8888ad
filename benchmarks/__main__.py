"""Run the benchmarks: all, or those whose names are given."""

import sys

from benchmarks import (
    cost,
    deep_linear,
    long_times,
    neural_ode,
    programs,
    residual,
    reused,
    startup,
    sweeps,
    two_layer,
    wide,
)

BENCHMARKS = {
    "cost": cost.run,
    "deep_linear": deep_linear.run,
    "long_times": long_times.run,
    "neural_ode": neural_ode.run,
    "programs": programs.run,
    "residual": residual.run,
    "reused": reused.run,
    "startup": startup.run,
    "sweeps": sweeps.run,
    "two_layer": two_layer.run,
    "wide": wide.run,
}


def main() -> None:
    names = sys.argv[1:] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"unknown benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    for name in names:
        print(f"\n{name}\n")
        BENCHMARKS[name]()


main()
