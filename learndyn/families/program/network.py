"""`Program`: a network that is a Python function, and what stands for data and training that are inside it."""

from typing import Any

import numpy as np

from learndyn.errors import ProblemError
from learndyn.families.program.identity import digest_of, parameters_of, source_of, takes
from learndyn.problem.checks import squared, text, whole
from learndyn.problem.network import Network
from learndyn.problem.part import field, plain, static_field
from learndyn.problem.supplies import Supply
from learndyn.problem.training import Training


class OwnData(Supply):
    """Data that a program makes by itself."""

    @property
    def task(self) -> "OwnData":
        """What is to be learnt: only the program knows."""
        return self


class OwnTraining(Training):
    """Training that a program carries out by itself.

    - `steps`: the length of its loop over `net.steps`.
    """

    implied = False

    steps: int = field(whole(0))

    @property
    def time(self) -> None:
        """Programs are trained in steps."""
        return None

    def named_values(self) -> dict[str, Any]:
        """Nothing to vary: the length belongs to the program."""
        return {}


def _function(value: Any, name: str) -> Any:
    if value is not None and not hasattr(value, "__code__"):
        raise ProblemError(
            name, value, "must be a function that takes the net, def program(net, …)"
        )
    return value


def _parameters(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProblemError(name, value, "must be a table of names and values")
    return dict(value)


class _ProgramType(type(Network)):
    """Makes programs: keywords of the function are its parameters."""

    def __call__(cls, function: Any, **keywords: Any) -> Any:
        function = _function(function, "Program.function")
        if function is None:
            raise ProblemError("Program.function", None, "missing; give a function of the net")
        fields = {}
        if "richness" in keywords and not takes(function, "richness"):
            fields["richness"] = keywords.pop("richness")
        return super().__call__(
            function=function,
            name=function.__name__,
            source=source_of(function),
            digest=digest_of(function),
            parameters=parameters_of(function, keywords),
            **fields,
        )

    def restored(cls, **fields: Any) -> Any:
        """The program with these very fields."""
        return super().__call__(**fields)


class Program(Network, metaclass=_ProgramType):
    """A network that is a Python function of a net of large Gaussian matrices: `Program(function, **parameters)`.

    The function is either a whole training loop, with data and rule inside,

        def perceptron(net, alpha=1.5, rate=0.07, steps=30):
            D, P = net.dim("inputs"), net.dim("examples", alpha)
            …
            for _ in net.steps(steps):
                net.record(train_loss=loss)
                train.step(loss)

        Problem(Program(perceptron, alpha=2.0))

    or a forward pass, which hands back the function from points to outputs; data and training are then the library's:

        def mlp(net, inputs, depth=2):
            …
            return outputs  # of points × inputs

        Problem(Program(mlp, depth=3, richness=1.5), Points(X, y), GradientDescent(0.2, steps=40))

    The output of the network is then f = outputs(x)/γ_0, and a step of training is θ ← θ − η γ_0² θ̄ with the gradients
    of `learndyn.programs`. That is the rule of `Wide`: θ ← θ − η γ_0² n ∂L/∂θ for weights of unit variance and n rows.

    - `function`: the function; None if the program was read from a file, which holds its text for reading only.
    - `parameters`: the values of its parameters, with their defaults.
    - `richness` (γ_0): of a forward pass that has no parameter of this name. 1 unless given.
    - `name`, `source`, `digest`: the name and text of the function, and the hash of all that it depends on.
    """

    function: Any = static_field(_function)
    name: str = static_field(text)
    source: str = static_field(text)
    digest: str = static_field(text)
    parameters: dict[str, Any] = field(_parameters)
    richness: float = field(squared(above=0), default=1.0)

    def to_dict(self) -> dict:
        return {
            "kind": self.kind,
            "name": self.name,
            "source": self.source,
            "digest": self.digest,
            "parameters": {key: _listed(value) for key, value in self.parameters.items()},
            "richness": self.richness,
        }

    @classmethod
    def from_dict(cls, values: dict, name: str, context: dict | None = None) -> "Program":
        fields = {key: value for key, value in values.items() if key != "kind"}
        for key in ("name", "source", "digest", "parameters"):
            if key not in fields:
                raise ProblemError(f"{name}.{key}", None, ONLY_READ)
        for key in fields:
            if key not in ("name", "source", "digest", "parameters", "richness"):
                raise ProblemError(f"{name}.{key}", fields[key], "unknown key")
        return cls.restored(function=None, **fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        mine, theirs = self.to_dict(), other.to_dict()
        return mine == theirs

    __hash__ = Network.__hash__

    def named_values(self) -> dict[str, Any]:
        return {"richness": self.richness} | self.parameters

    def with_values(self, **values: Any) -> "Program":
        if self.function is None:
            raise ProblemError("network.function", self.name, ONLY_READ)
        richness = {} if takes(self.function, "richness") else {"richness": self.richness}
        return Program(self.function, **(richness | self.parameters | values))

    def completed(self, data: Any, training: Any) -> tuple[Any, Any]:
        inside = (data is None and training is None) or isinstance(data, OwnData)
        if not inside or self.function is None:
            return data, training
        from learndyn.families.program.loop import own_steps

        return OwnData(), OwnTraining(own_steps(self))


ONLY_READ = (
    "a program in a file is for reading only, because files never run code; name its Python file "
    "(learndyn run program.py), or give ld.Program its function"
)


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else plain(value)
