"""Whatever a constructor of training is given, it takes or refuses by an error of calor."""

import contextlib
import inspect
from typing import Any

import numpy as np
import pytest

import calor
import calor_train
from calor import nn
from calor.errors import CalorError
from calor_train import SGD, ArrayDataset, Constant

WRONG: tuple[Any, ...] = (
    0, -1, -2.5, 2.5, float("nan"), float("inf"), "word", None, (), (1, 2, 3, 4), [[1, 2]],
    True, 1 + 2j, np.ones((2, 3)), object(), {"a": 1},
)  # fmt: skip
GIVEN: dict[str, Any] = {
    **dict.fromkeys(("steps", "first", "step_size", "classes", "k"), 5),
    **dict.fromkeys(("rate", "gamma"), 0.5), "milestones": (3,), "indices": [0, 1],
    "schedules": [Constant(), Constant()], "name": "m", "loss": nn.MSELoss(),
    "function": lambda x, y: x, "path": "log.csv", "folder": "saved",
}  # fmt: skip
# Objects that the user writes, and what has no settings.
APART = {"device", "function", "collate", "transform", "loss", "forward", "kwargs", "args"}
BASES = {"Optimizer", "ParameterGroup", "Schedule", "Metric", "Callback", "Dataset", "Muon"}
KINDS = [
    name
    for name in calor_train.__all__
    if isinstance(kind := getattr(calor_train, name), type)
    and not issubclass(kind, Exception)
    and name not in BASES
]


def right_settings(kind: Any) -> dict[str, Any]:
    known = inspect.signature(kind).parameters.values()
    w = calor.ones(3, requires_grad=True)
    made = {"params": [w], "optimizer": SGD([w], 0.1), "model": nn.Linear(2, 2)}
    made["dataset"] = ArrayDataset(np.arange(10.0))
    empty, named = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    needed = [p.name for p in known if p.default is empty and p.kind <= named and p.kind != 2]
    return {n: (GIVEN | made)[n] for n in needed}


@pytest.mark.parametrize("name", KINDS)
def test_settings_are_taken_or_refused(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    kind = getattr(calor_train, name)
    names = inspect.signature(kind).parameters
    if any(p.kind == inspect.Parameter.VAR_POSITIONAL for p in names.values()):
        return
    for parameter in [n for n in names if n not in APART and n != "schedules"]:
        for value in WRONG:
            if parameter == "params" and value is not None:
                continue
            with contextlib.suppress(CalorError):
                kind(**{**right_settings(kind), parameter: value})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calor_train.Cosine("9"), "Cosine: steps must be a whole number, not '9'"),
        (lambda: calor_train.OneCycleMomentum(0), "OneCycleMomentum: steps must be at least 1"),
        (lambda: calor_train.OneCycle(1), "OneCycle: steps must be at least 2, not 1"),
        (lambda: calor_train.Constant(None), "Constant: factor must be a number, not None"),
        (lambda: calor_train.Adam([], betas=0.9), "Adam: betas must be a tuple of a number, a num"),
        (lambda: calor_train.CSVLog(3), "CSVLog: path must be a string or a path, not 3"),
        (lambda: calor_train.DataLoader(3), "DataLoader: dataset must be a Dataset or a SizedItem"),
        (lambda: calor_train.DataLoader([1], seed=2.5), "seed must be a whole number, a Generator"),
        (lambda: calor_train.MultiStep(3), "milestones must be a sequence with a whole number in"),
        (lambda: calor_train.clip_grad_value_(3, 1.0), "must be a module or an iterable of ten"),
    ],
)
def test_errors_name_the_setting(call: Any, message: str) -> None:
    with pytest.raises(CalorError, match=message):
        call()
