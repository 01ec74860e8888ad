"""The pictures that `learndyn run` and `learndyn demo` make of any theory and its runs."""


def pictures(theory, runs, comparison) -> dict:
    """Captions and figures by name: the learning curve, the deviations, the order parameters."""
    from learndyn.pictures.plotting import agreement_panel, plot

    drawn = {"curve": ("The learning curve.", plot(theory, runs))}
    # Runs without any spread have no standard errors to measure deviations in.
    if (comparison.table["looks"] > 0).any():
        caption = "Mean of the runs minus theory, in standard errors."
        drawn["deviations"] = (caption, agreement_panel(comparison))
    others = [name for name in _moving(theory) if name != "test_loss"]
    if others:
        figure = plot(theory, runs, observables=others)
        drawn["order_parameters"] = ("The order parameters.", figure)
    return drawn


def _moving(theory) -> list[str]:
    """The observables that change in the course of training; the others are no curves."""
    axis = theory.axis
    arrays = [theory[name] for name in theory.observables if axis in theory[name].dims]
    return [array.name for array in arrays if (array != array.isel({axis: 0})).any()]
