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

    Fields that are not known are None, and are not keys. Every solution has

    - `kind`: "theory" or "simulation";
    - `theory`, `reference`, `method`: the names of the theory and its paper, and the method as plain data;
    - `size_symbol`: the paper's letter for the size;
    - `wall_time`: the whole time in seconds; `compile_time`: the part of it in which JAX or numba compiled;
    - `versions`: of the libraries that the numbers depend on.

    A theory also has

    - `exactness`: whether it is exact, asymptotic or approximate; `seed`: with which it drew samples;
    - `accuracy`: an absolute error for each observable; `warnings`: sentences for the user;
    - `symmetric_start`: what is symmetric about the start, and how fast small deviations grow.

    A simulation has its `size` and `seeds`, and `limiting_size`, the smallest of the sizes that the theory takes to be
    large. Entries of a single theory are in `rest`, and are keys like all others.
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

    def __post_init__(self) -> None:
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


def to_json(value: object) -> str:
    """JSON, in which numbers and arrays of NumPy become plain numbers and lists."""

    def plain(item: object) -> object:
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
