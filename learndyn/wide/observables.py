"""The observables of wide networks, the same for the limit, its approximations and finite networks.

Points are numbered with the trained ones first; an axis of outputs (`output`, `output2`) is left out where there is
one.
"""

import numpy as np

from learndyn.theory import Observable
from learndyn.wide.setting import Loss


def observables(arrays: dict, axis: str, errors: dict | None = None) -> dict[str, Observable]:
    """Named arrays from `arrays`, which always have axes for outputs; `errors` holds standard errors."""
    two = ("layer", axis, "point", f"{axis}2", "point2")
    gradients = ("layer", axis, "point", "output", f"{axis}2", "point2", "output2")
    known = {
        "train_loss": ((axis,), "loss of the trained points"),
        "test_loss": ((axis,), "loss of the test points"),
        "prediction": ((axis, "train_point", "output"), "outputs f of the trained points"),
        "test_prediction": ((axis, "test_point", "output"), "outputs f of the test points"),
        "kernel": (
            (axis, "point", "output", "point2", "output2"),
            "neural tangent kernel Σ_ℓ G^{ℓ+1} Φ^ℓ at equal times",
        ),
        "Phi": (two, "feature kernels Φ^ℓ(t, s) = ⟨φ(h(t))φ(h(s))⟩"),
        "G": (gradients, "gradient kernels G^ℓ(t, s) = ⟨g(t)g(s)⟩"),
        "A": (
            ("layer", axis, "point", f"{axis}2", "point2", "output2"),
            "responses A^ℓ of φ(h^ℓ(t)) to r^ℓ(s)",
        ),
        "B": (
            ("layer", axis, "point", "output", f"{axis}2", "point2"),
            "responses of g^ℓ(t) to u^ℓ(s), the paper's B^{ℓ−1}",
        ),
        "alignment": (
            ("layer", axis),
            "alignment of Φ^ℓ(t, t) with the targets, Tr(yᵀΦy)/(|Φ||yyᵀ|)",
        ),
        "movement": (("layer", axis), "movement of Φ^ℓ: |Φ(t, t) − Φ(0, 0)|/|Φ(0, 0)|"),
        "preactivation": (("layer", axis, "point", "sample"), "samples of the preactivations h^ℓ"),
    }
    errors = errors or {}
    found = {}
    for name, (dims, words) in known.items():
        if name not in arrays:
            continue
        values, error = np.asarray(arrays[name]), errors.get(name)
        single = tuple(
            i for i, dim in enumerate(dims) if dim in ("output", "output2") and values.shape[i] == 1
        )
        kept = tuple(dim for i, dim in enumerate(dims) if i not in single)
        # Single samples of a distribution have nothing to agree with; a norm of little is mostly that of the noise.
        judged = name not in ("preactivation", "movement")
        error = None if error is None else np.squeeze(np.asarray(error), axis=single)
        found[name] = Observable(kept, np.squeeze(values, axis=single), words, "1", judged, error)
    return found


def losses(loss: Loss, f: np.ndarray, test_targets) -> dict[str, np.ndarray]:
    """Predictions and losses from the outputs f (steps, points, C) of all points."""
    P = len(loss.targets)
    found = {"prediction": f[:, :P], "train_loss": loss.value(f[:, :P])}
    if f.shape[1] > P:
        found["test_prediction"] = f[:, P:]
        if test_targets is not None:
            y = np.asarray(test_targets).reshape(f.shape[1] - P, -1)
            found["test_loss"] = loss.value(f[:, P:], y)
    return found


def kernel_summaries(Phi: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """`alignment` and `movement` from the equal-time kernels Φ (layers, steps, points, points) of all points."""
    P = len(targets)
    trained = Phi[..., :P, :P]
    square = targets @ targets.T
    size = np.linalg.norm(trained, axis=(-2, -1))
    moved = np.linalg.norm(trained - trained[:, :1], axis=(-2, -1))
    aligned = np.einsum("ltij,ij->lt", trained, square) / np.linalg.norm(square)
    return {"alignment": aligned / size, "movement": moved / size[:, :1]}
