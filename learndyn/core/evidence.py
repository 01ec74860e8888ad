"""`Evidence`: how numbers were obtained."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence(Mapping[str, Any]):
    """How the numbers of a solution were obtained: plain data, by attribute or by key.

    Every solution has `kind` ("theory" or "simulation"), theory, reference, method, wall_time and versions. A theory
    also says how exact it is and which seed it drew samples with; `accuracy` is an absolute error for each observable,
    `warnings` are sentences, `symmetric_start` says what is symmetric, and how fast small deviations grow. A simulation
    has its size and seeds; `limiting_size` is the smallest of the sizes that the theory takes to be large.
    `size_symbol` is the paper's letter for the size. What only one theory knows is in `rest`, and is a key like all
    others. What is not known is None, and not a key.

    `wall_time` is the whole time in seconds, and `compile_time` the part of it in which JAX or numba compiled.
    """

    kind: str = ""
    theory: str | None = None
    exactness: str | None = None
    reference: str | None = None
    method: dict | None = None
    seed: int | None = None
    size: int | None = None
    seeds: list[int] | None = None
    size_symbol: str | None = None
    limiting_size: int | None = None
    accuracy: dict[str, float] | None = None
    warnings: list[str] | None = None
    symmetric_start: dict | None = None
    wall_time: float | None = None
    compile_time: float | None = None
    versions: dict[str, str] | None = None
    rest: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.kind not in ("theory", "simulation"):
            raise ValueError(f"kind = {self.kind!r}: must be 'theory' or 'simulation'")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Evidence":
        """The evidence that plain data describe; keys that are not fields go to `rest`."""
        values = json.loads(to_json(dict(values)))
        known = {f.name for f in dataclasses.fields(cls)} - {"rest"}
        rest = {key: value for key, value in values.items() if key not in known}
        return cls(**{key: values[key] for key in known & values.keys()}, rest=rest)

    def _items(self) -> dict[str, Any]:
        fields = [f.name for f in dataclasses.fields(self) if f.name != "rest"]
        known = {name: getattr(self, name) for name in fields}
        return {name: value for name, value in known.items() if value is not None} | self.rest

    def __getitem__(self, key: str) -> Any:
        return self._items()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())


def to_json(value) -> str:
    """JSON, with numbers and arrays of numpy as plain ones."""

    def plain(item):
        if isinstance(item, np.ndarray | np.generic):
            return item.tolist()
        if isinstance(item, Mapping):
            return dict(item)
        raise TypeError(f"{item!r} is not plain data and cannot be saved")

    return json.dumps(value, default=plain)


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the libraries that the numbers depend on."""
    return {name: version(name) for name in ("learndyn", "jax", "diffrax", "numba", "numpy")}
