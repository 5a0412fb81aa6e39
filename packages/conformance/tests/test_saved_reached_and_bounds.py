"""Checks of saved states, reach of dropout, domains of functions, and bounds of operators of ONNX.

Each passes on the reference, and names what is planted in the package that it asks.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import calor
import calor_train
from calor import special
from calor_conformance.checks import domains_of_functions, reach_of_dropout, states_saved_once
from calor_nn import attention, functional, recurrent, transformer
from calor_nn.recurrent import _Recurrent
from calor_train import scaling, scheduler
from calor_train.optimizers import lbfgs
from reference_failures import failures

SAVED = [c.name for c in states_saved_once.states_saved_once()]
REACHED = [c.name for c in reach_of_dropout.reach_of_dropout()]
DOMAINS = [c.name for c in domains_of_functions.domains_of_functions()]
BOUNDS = "models/operators-bounds"
indexing = importlib.import_module("calor_onnx.operators.indexing")


@pytest.mark.parametrize("name", [*SAVED, *REACHED, BOUNDS])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


@pytest.mark.parametrize("name", DOMAINS)
def test_functions_of_the_reference_pass(name: str) -> None:
    assert failures(name, 2) == []


def test_every_class_with_a_state_is_asked() -> None:
    asked = {name.split(" ")[0] for name in states_saved_once.KINDS}
    plain = calor_train.Callback.state_dict
    for name, found in vars(calor_train).items():
        if inspect.isclass(found) and getattr(found, "state_dict", plain) is not plain:
            assert name in asked or name == "Optimizer", name


def test_every_special_function_is_asked() -> None:
    asked = {*domains_of_functions.names(), *domains_of_functions.WITHOUT}
    assert set(special.__all__) - asked == set()


def test_every_layer_with_dropout_is_asked() -> None:
    asked = {*reach_of_dropout.SUBJECTS, "TransformerDecoder", "Transformer"}
    for module in (recurrent, attention, transformer):
        for name, found in vars(module).items():
            if inspect.isclass(found) and found.__module__ == module.__name__:
                takes = "dropout" in inspect.signature(found).parameters
                assert name in asked or not takes or name.startswith("_"), name


def _by(change: Callable[[str], str], function: Any) -> Any:
    """Return a function made of the changed text of another one."""
    text = textwrap.dedent(inspect.getsource(function))
    changed = change(text)
    assert changed != text
    inside = {**function.__globals__}
    exec(compile(changed, "planted", "exec"), inside)
    return inside[function.__name__]


def _first_dropped(text: str) -> str:
    return text.replace("if layer and self.dropout", "if self.dropout")


def _last_dropped(text: str) -> str:
    return text.replace("if layer and self.dropout", "if layer > 1 and self.dropout")


def _always(text: str) -> str:
    return text.replace("training=self.training", "training=True")


@pytest.mark.parametrize("change", [_first_dropped, _last_dropped, _always])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_dropout_elsewhere_between_recurrent_layers_is_found(
    name: str, change: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Recurrent, "_run", _by(change, _Recurrent._run))
    assert failures(f"functions/calor_nn.reach-of-dropout-{name}", 1)


def test_dropout_of_a_whole_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped(x: Any, p: float = 0.5, *, training: bool = False) -> Any:
        return functional.dropout(x[:, :1, :1] * 0 + 1, p, training=training) * x

    monkeypatch.setattr(
        recurrent, "functional",
        type("F", (), {"dropout": staticmethod(dropped), "linear": functional.linear}),
    )  # fmt: skip
    assert failures("functions/calor_nn.reach-of-dropout-GRU", 1)


def test_dropout_of_the_stream_of_a_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def residual(self: Any, x: Any, part: Any, norm: Any, dropout: Any) -> Any:
        if self.norm_first:
            return x + dropout(part(norm(x)))
        return norm(dropout(x + part(x)))

    monkeypatch.setattr(transformer._Block, "_residual", residual)
    for name in ("TransformerEncoderLayer", "TransformerDecoderLayer"):
        assert failures(f"functions/calor_nn.reach-of-dropout-{name}", 2)


def test_lists_of_a_state_that_are_shared_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lbfgs, "_copied", lambda value: value)
    assert failures("state/saved-once-LBFGS", 1)


def test_vectors_of_a_state_that_are_shared_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lbfgs, "_copied", lambda v: [*v] if isinstance(v, list) else v)
    assert failures("state/saved-once-LBFGS", 1)


def test_bases_that_are_shared_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def state_dict(self: Any) -> dict[str, Any]:
        return {"count": self.count, "bases": self.bases}

    monkeypatch.setattr(scheduler.Scheduler, "state_dict", state_dict)
    assert failures("state/saved-once-Scheduler", 1)


def test_a_state_that_is_kept_as_it_is_loaded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_state_dict(self: Any, state_dict: Any) -> None:
        self.count, self.bases = state_dict["count"], state_dict["bases"]

    monkeypatch.setattr(scheduler.Scheduler, "load_state_dict", load_state_dict)
    assert failures("state/saved-once-Scheduler", 1)


def test_a_scale_that_is_shared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scaling.GradScaler.state_dict
    shared: dict[str, Any] = {}

    def state_dict(self: Any) -> dict[str, Any]:
        shared.update(real(self))
        return shared

    monkeypatch.setattr(scaling.GradScaler, "state_dict", state_dict)
    assert failures("state/saved-once-GradScaler", 2)


PLANTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a branch": ("zeta", lambda real: lambda s, q: calor.where(
        (q < 0) & (q != calor.floor(q)), 1.0, real(s, q))),
    "a sign of zero": ("k0", lambda real: lambda x: real(calor.abs(x))),
    "an end": ("entr", lambda real: lambda x: calor.where(x == 0, float("nan"), real(x))),
    "zero times infinity": ("xlogy", lambda real: lambda x, y: x * calor.log(y)),
    "a pole": ("gammaln", lambda real: lambda x: real(calor.where(x == -2, -2.001, x))),
    "a limit": ("i1", lambda real: lambda x: calor.abs(real(x))),
    "a negative shape": ("gammainc", lambda real: lambda a, x: real(calor.abs(a), x)),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_another_domain_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change = PLANTED[what]
    monkeypatch.setattr(special, name, change(getattr(special, name)))
    assert f"{name} in" in failures(f"accuracy/domains-{name}/float64", 1)[0]


def test_bounds_of_python_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "max", lambda start, first: start, raising=False)
    assert "Slice" in failures(BOUNDS, 1)[0]


def test_places_that_count_from_the_first_alone_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = calor.take
    monkeypatch.setattr(
        calor, "take", lambda x, at, *, axis: taken(x, calor.maximum(at, 0), axis=axis)
    )
    assert "Gather" in failures(BOUNDS, 1)[0]
