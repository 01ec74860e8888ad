"""`alignment`: the cosine between theory and runs."""

import numpy as np
import pandas as pd

from learndyn.core.compare import on_common_axes
from learndyn.core.solution import Solution
from learndyn.numerics.statistics import mean_and_error


def alignment(theory: Solution, runs: Solution) -> pd.DataFrame:
    """The cosine Σ x·y/(|x||y|) between theory x and runs y, over all times and components of each observable.

    A row for each observable that both have: `of_the_mean` is the cosine with the mean of the runs, `mean` the mean
    of the cosines with the single runs, and `standard_error` its error. A cosine is 1 if a run is a multiple of the
    theory: it tests the shape, not the size. For agreement within error bars use `compare`.
    """
    rows = {}
    for name, run, predicted in on_common_axes(theory, runs):
        flat = run.reshape(len(run), -1)
        cosines = np.array([_cosine(single, predicted.ravel()) for single in flat])
        mean, error = mean_and_error(cosines)
        rows[name] = {
            "of_the_mean": _cosine(flat.mean(axis=0), predicted.ravel()),
            "mean": float(mean),
            "standard_error": float(error),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("observable")


def _cosine(x: np.ndarray, y: np.ndarray) -> float:
    length = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / length) if length > 0 else np.nan
