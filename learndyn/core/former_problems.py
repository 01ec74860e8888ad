"""Problems of learndyn 0.1 and 0.2, in which supplies and networks held the task, as problems of today."""

import tomllib

import tomli_w

TEACHER_FLOW = {
    "teacher_time": "time",
    "teacher_noise": "noise",
    "teacher_amplitudes": "amplitudes",
    "teacher_windows": "windows",
    "teacher_overlaps": "overlaps",
}
"""Fields of the former `NeuralODE` that belong to the teacher's flow today."""


def with_task(text: str) -> str:
    """The text of a former problem file as one of today."""
    values = tomllib.loads(text)
    network, data = values["network"], values["data"]
    if data.get("kind", "").startswith("points") or "task" in data:
        return text
    if "teacher" in data:
        task = {"kind": "teacher"} | data.pop("teacher")
    elif network.get("kind") == "neural_ode":
        task = {"kind": "teacher_flow"}
        task |= {new: network.pop(old) for old, new in TEACHER_FLOW.items() if old in network}
        task |= {name: data.pop(name) for name in ("observations", "chained") if name in data}
    else:
        task = {"kind": "linear_map"}
        task |= {"spectrum": data.pop("spectrum")} if "spectrum" in data else {}
    data.pop("chained", None)
    return tomli_w.dumps(values | {"data": data | {"task": task}})
