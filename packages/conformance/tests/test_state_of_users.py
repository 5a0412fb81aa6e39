"""Gradients that are lost, modes that leak, figures and texts that are wrong, are found."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import calor
from calor import device_control, other_files, safetensors_file, timing
from calor.backends.numpy_backend import NumpyBuffer
from calor.local import local
from calor.methods import core, pickling
from calor.methods import repr as printing
from calor.plugins.discovery import get_device
from calor.recording import views
from calor_conformance.checks.asked_memory import asked_memory
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_files import drawn_files
from calor_conformance.checks.drawn_learning import drawn_learning
from calor_conformance.checks.drawn_leaves import drawn_leaves
from calor_conformance.checks.drawn_modules import drawn_modules
from calor_conformance.checks.drawn_optimizers import drawn_optimizers
from calor_conformance.checks.drawn_weights import drawn_weights
from calor_conformance.checks.nested_modes import nested_modes
from calor_conformance.checks.printed import printed
from calor_nn import Conv1d, loading, module
from calor_train.callbacks import Monitor
from calor_train.optimizers import Optimizer
from calor_train.optimizers.group import ParameterGroup
from calor_train.optimizers.sgd import SGDGroup

CHECKS = {
    c.subject: c
    for made in (
        drawn_leaves,
        nested_modes,
        asked_memory,
        printed,
        drawn_files,
        drawn_learning,
        drawn_optimizers,
        drawn_modules,
        drawn_weights,
    )
    for c in made()
}
SUFFIXES, IMPROVED = printing._suffixes, Monitor.improved


def ask(name: str) -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECKS[name].run(Place(device, device))


def kept(self: Any, *error: object) -> None:
    self.before.pop()


def without_recording(x: Any) -> Any:
    return x.detach()


def unlocked(file: Any) -> bool:
    """Leave a file beside the one that is written."""
    (Path(file.name).parent / "left").touch()
    return True


def of_finite_ones(self: Any, row: Any) -> bool:
    """Pass over a number that is infinite."""
    return math.isfinite(row[self.name]) and IMPROVED(self, row)


FAULTS: list[tuple[str, Any, str, Any, str]] = [
    ("drawn-leaves", core, "identity", without_recording, "requires_grad is"),
    ("drawn-leaves", pickling, "_is_leaf", lambda x, what: False, "requires_grad is|no Gradient"),
    ("nested-modes", views._views, "__exit__", kept, "views is"),
    ("asked-figures", device_control, "flush_all", lambda target: None, "bytes of"),
    ("asked-times", timing.Timing, "min", property(lambda self: self.seconds[0]), "of"),
    ("printed-tensors", printing, "_suffixes", lambda x: SUFFIXES(x)[:1], "not"),
    ("printed-tensors", printing, "_summarised", lambda x: x.size > 1000, "not"),
    ("calor_train.watched-runs", Monitor, "improved", of_finite_ones, "after"),
    ("calor_train.drawn-SGD", SGDGroup, "_undamped", lambda self, n, g: g, "parameter"),
    ("printed-modules", Conv1d, "extra_repr", lambda self: "2, 3", "makes|says|required"),
    ("printed-modules", module.Module, "extra_repr", lambda self: "x", "x"),
    ("drawn-files", safetensors_file, "_lock", unlocked, "files|replaced"),
    ("drawn-files", other_files, "_PROTOCOLS", (b"\2",), "not in"),
    ("calor_train.drawn-Adam", ParameterGroup, "count", lambda *a: None, "parameter|counts"),
    ("calor_train.drawn-SGD", Optimizer, "params", property(lambda self: []), "other parameters"),
    ("calor_nn.drawn-trees", module, "_wants_gradients", lambda value: False, "parameters"),
    ("calor_nn.drawn-trees", loading, "_convert", lambda leaf, device, dtype: None, "is"),
    ("calor_nn.drawn-trees", module.Module, "__deepcopy__", lambda self, memo: self, "copy"),
    ("drawn-weights", NumpyBuffer, "exported", False, "a held array changed"),
    ("printed-modules", module.tables, "_totals", lambda module: [], "parameters"),
]


@pytest.mark.parametrize(("check", "owner", "name", "fault", "said"), FAULTS)
def test_it_is_named(
    check: str, owner: Any, name: str, fault: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    mode = local.views
    try:
        with pytest.raises((AssertionError, NameError, TypeError), match=said):
            ask(check)
    finally:
        local.views = mode
