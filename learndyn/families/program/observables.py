"""The observables of programs: what a loop records, and for a forward pass losses and outputs too."""

from learndyn.core.curves import Convention, Quantity, Table

TRAINED = Convention(
    "as training has it: criterion (½ for squared), and mean or sum over points; given labels"
)

POINTS: Table = (
    Quantity("train_loss", ("step",), "loss of the trained points", convention=TRAINED),
    Quantity("test_loss", ("step",), "loss of the test points", convention=TRAINED),
    Quantity("prediction", ("step", "train_point", "output"), "outputs f of the trained points"),
    Quantity("test_prediction", ("step", "test_point", "output"), "outputs f of the test points"),
)
"""Of every forward pass on given points."""


def table_of_records(shapes: dict[str, tuple[int, ...]], known: Table = ()) -> Table:
    """The table of scalars with these small axes; those that `known` describes come first, as it describes them."""
    first = tuple(quantity for quantity in known if quantity.name in shapes)
    named = {quantity.name for quantity in first}
    own = (
        Quantity(name, ("step", *_axes(name, len(shape))), name.replace("_", " "))
        for name, shape in shapes.items()
        if name not in named
    )
    return (*first, *own)


def _axes(name: str, count: int) -> tuple[str, ...]:
    """Names of the small axes of a record, which belong to no other record."""
    return (
        (f"{name}_axis",) if count == 1 else tuple(f"{name}_axis{k}" for k in range(1, count + 1))
    )
