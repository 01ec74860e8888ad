"""Arrays of learndyn 0.1 in today's conventions: with axes of length one, and with today's names and factors."""

import xarray as xr

from learndyn.core.curves import MAIN, SECOND
from learndyn.core.theory import Theory
from learndyn.problem.problem import Problem

ENDINGS = ("_standard_error_runs", "_standard_error", "_runs", "")
"""What follows the name of an observable, in solutions and sweeps."""


def from_version_1(data: xr.Dataset, theory: Theory, problem: Problem) -> xr.Dataset:
    """The arrays of a solution of a problem, or of a sweep, that learndyn 0.1 saved."""
    axis = "time" if "time" in data.dims else "step"
    names = {MAIN: axis, SECOND: f"{axis}2"}
    known = {quantity.name: quantity for quantity in theory.table_of(problem)}
    for full in map(str, list(data.data_vars)):
        ending = next(ending for ending in ENDINGS if full.endswith(ending))
        old = full.removesuffix(ending)
        name = theory.former_names.get(old, old)
        if name not in known:
            continue
        array = data[full]
        axes = [names.get(dim, dim) for dim in known[name].axes]
        missing = {dim: [0] for dim in axes if dim not in array.dims}
        outer = [dim for dim in array.dims if dim not in axes]
        converted = array.expand_dims(missing).transpose(*outer, *axes)
        converted = converted * theory.former_factors.get(name, 1.0)
        attributes = {key: value for key, value in array.attrs.items() if key != "units"}
        attributes["long_name"] = known[name].words
        if "standard_error_of" in attributes:
            attributes["long_name"] = f"standard error of {known[name].words}"
            of_what = str(attributes["standard_error_of"])
            attributes["standard_error_of"] = f"{name}{of_what.removeprefix(old)}"
        elif known[name].convention.words:
            attributes["convention"] = known[name].convention.words
        converted.attrs = attributes
        data = data.drop_vars(full).assign({f"{name}{ending}": converted})
    return data
