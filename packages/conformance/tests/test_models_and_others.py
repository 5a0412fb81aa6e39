"""Checks of models of ONNX and of devices made of others find what is planted, and else pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from calor_http.model import batching
from calor_http.server import blobs, queueing, quotas
from calor_http.server.app import Server
from calor_onnx import repeating
from calor_onnx.exporting import graphs as exporting
from calor_onnx.operators import elementwise  # noqa: F401 - it fills the registry
from calor_onnx.registry import REGISTRY
from calor_router import executable, flows, rooms
from calor_router.backend import RouterBackend
from calor_router.told import Placement
from reference_failures import failures

MODULES = (
    "models/operators-elementwise", "models/operators-moving", "models/operators-neural",
    "models/operators-others", "models/operators-further", "models/operators-fused",
    "models/operators-runtime", "models/structures", "models/drawn-graphs",
    "models/exported-ops",
    "models/exported-layers", "models/served", "devices/routed-programs",
    "devices/streamed-programs", "devices/routed-flows", "devices/routed-within-limits",
    "devices/a-router-as-a-device", "devices/a-served-device",
    "devices/served-accounts", "devices/served-clients",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def _without(name: str) -> Callable[[Any], Any]:
    def change(right: Any) -> Any:
        return lambda *operands, **how: right(
            *operands, **{k: v for k, v in how.items() if k != name}
        )

    return change


@pytest.mark.parametrize(
    ("operator", "attribute", "check"),
    [
        ("LeakyRelu", "alpha", "elementwise"), ("CumSum", "exclusive", "elementwise"),
        ("ArgMax", "select_last_index", "elementwise"), ("Flatten", "axis", "moving"),
        ("Trilu", "upper", "moving"), ("Conv", "dilations", "neural"),
        ("LSTM", "direction", "neural"), ("Resize", "nearest_mode", "neural"),
        ("QuantizeLinear", "axis", "others"), ("DFT", "inverse", "others"),
        ("Col2Im", "pads", "further"), ("CumProd", "reverse", "further"),
        ("QLinearConv", "dilations", "further"), ("StringSplit", "maxsplit", "further"),
    ],
)  # fmt: skip
def test_an_attribute_that_is_not_read_is_found(
    monkeypatch: pytest.MonkeyPatch, operator: str, attribute: str, check: str
) -> None:
    versions = REGISTRY.table["", operator]
    broken = [replace(v, function=_without(attribute)(v.function)) for v in versions]
    monkeypatch.setitem(REGISTRY.table, ("", operator), broken)
    assert failures(f"models/operators-{check}", 6)


@pytest.mark.parametrize(
    ("operator", "attribute", "group"),
    [
        ("QuickGelu", "alpha", "fused"), ("QGemm", "alpha", "runtime"),
        ("QAttention", "unidirectional", "runtime"), ("GroupNorm", "activation", "runtime"),
        ("QLinearSoftmax", "opset", "runtime"), ("TransposeMatMul", "transBatchA", "runtime"),
    ],
)  # fmt: skip
def test_an_option_of_a_fused_operator_that_is_not_read_is_found(
    monkeypatch: pytest.MonkeyPatch, operator: str, attribute: str, group: str
) -> None:
    key = "com.microsoft", operator
    right = REGISTRY.table[key]
    options = {"activation": 0} if attribute == "activation" else {}

    def change(function: Any) -> Any:
        without = _without(attribute)(function)
        return lambda *operands, **how: without(*operands, **how, **options)

    broken = [replace(v, function=change(v.function)) for v in right]
    monkeypatch.setitem(REGISTRY.table, key, broken)
    assert failures(f"models/operators-{group}", 6)


@pytest.mark.parametrize(
    ("operator", "attribute"),
    [("Scan", "scan_output_axes"), ("SplitToSequence", "keepdims"),
     ("ConcatFromSequence", "new_axis")],
)  # fmt: skip
def test_an_option_of_a_structure_that_is_not_read_is_found(
    monkeypatch: pytest.MonkeyPatch, operator: str, attribute: str
) -> None:
    broken = [
        replace(v, function=_without(attribute)(v.function)) for v in REGISTRY.table["", operator]
    ]
    monkeypatch.setitem(REGISTRY.table, ("", operator), broken)
    assert failures("models/structures", 6)


def test_a_pass_that_takes_another_epsilon_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    batch_norm = import_module("calor_onnx.passes.batch_norm")
    right = batch_norm._rate
    monkeypatch.setattr(batch_norm, "_rate", lambda moments, epsilon: right(moments, 1e-5))
    assert failures("models/drawn-graphs", 4)


def test_a_run_that_is_repeated_with_old_numbers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = repeating.Repeats.run

    def run(self: Any, inputs: Any) -> Any:
        made = right(self, inputs)
        return None if made is None else [a * 0 for a in made]

    monkeypatch.setattr(repeating.Repeats, "run", run)
    assert failures("models/drawn-graphs", 4)


@pytest.mark.parametrize("op", ["sum", "pad", "cumsum", "floor_divide"])
def test_an_op_that_is_exported_as_another_is_found(
    monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    right = exporting.ROWS[op]

    def wrong(w: Any, step: Any, *names: str) -> Any:
        return w.node("Neg", right(w, step, *names))

    monkeypatch.setitem(exporting.ROWS, op, wrong)
    assert failures("models/exported-ops")


def test_bytes_that_are_told_and_not_moved_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Placement, "moved_bytes", property(lambda self: 0))
    assert failures("devices/routed-programs")


def test_moves_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouterBackend, "count", lambda self, nbytes: None)
    assert failures("devices/routed-programs")


def test_a_member_with_more_than_it_may_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Placement.__init__

    def told(self: Any, *given: Any, **more: Any) -> None:
        right(self, *given, **more)
        object.__setattr__(self, "peaks", {0: 1 << 40})

    monkeypatch.setattr(executable, "Placement", type("Told", (Placement,), {"__init__": told}))
    assert failures("devices/streamed-programs")


def test_a_bucket_without_a_top_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rise(self: Any) -> None:
        now = self._clock()
        self._level += (now - self._at) * self._rate
        self._at = now

    monkeypatch.setattr(quotas.Bucket, "_rise", rise)
    assert failures("devices/served-accounts")


def test_bytes_of_two_sessions_that_are_not_added_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reserve(self: Any, holder: Any, held: int, more: int, most: int | None) -> int | None:
        if most is not None and held + more > most:
            return held
        self._note(holder, held + more)
        return None

    monkeypatch.setattr(quotas.Ledger, "reserve", reserve)
    assert failures("devices/served-accounts", 4)


def test_weights_that_are_not_read_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = queueing.FairQueue.leave

    def leave(self: Any, seconds: float) -> None:
        quota = self._holder.quota
        self._holder.quota = replace(quota, weight=1.0)
        try:
            right(self, seconds)
        finally:
            with contextlib.suppress(AttributeError):
                self._holder.quota = quota

    monkeypatch.setattr(queueing.FairQueue, "leave", leave)
    assert failures("devices/served-accounts", 4)


def test_pieces_that_come_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = blobs.Growing.add
    monkeypatch.setattr(blobs.Growing, "add", lambda self, piece: right(self, piece[::-1]))
    assert failures("devices/served-accounts")


def test_a_session_that_is_open_to_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "session", lambda self, name, account: self.sessions[name])
    assert failures("devices/served-clients")


def test_rows_that_are_given_to_another_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = batching.joined

    def joined(feeds: Any, runs: Any) -> Any:
        made = right(feeds, runs)
        return [{n: np.roll(a, 1, 0) for n, a in one.items()} for one in made]

    monkeypatch.setattr(batching, "joined", joined)
    assert failures("models/served", 4)


def _one_step_less(patch: pytest.MonkeyPatch) -> None:
    right = flows.Flow._scan

    def scan(self: Any, given: Any) -> Any:
        made = right(self, given)
        carries = self.node.attributes["carries"]
        return [*made[:carries], *made[carries:][::-1]] if len(made) - carries > 1 else made

    patch.setattr(flows.Flow, "_scan", scan)


def _other_branch(patch: pytest.MonkeyPatch) -> None:
    right = flows.Flow._holds
    patch.setattr(
        flows.Flow,
        "_holds",
        lambda s, value: right(s, value) != (s.node.op.name == "cond"),
    )


def _groups_of_rows_in_another_order(patch: pytest.MonkeyPatch) -> None:
    right = flows.Flow._joined

    def joined(self: Any, known: Any, rows: Any) -> Any:
        return right(self, known, [*rows[64:], *rows[:64]])

    patch.setattr(flows.Flow, "_joined", joined)


def _no_room_is_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rooms.Rooms, "make", lambda *given, **how: True)


@pytest.mark.parametrize(
    ("change", "name"),
    [(_one_step_less, "routed-flows"), (_other_branch, "routed-flows"),
     (_groups_of_rows_in_another_order, "routed-flows"),
     (_no_room_is_made, "routed-within-limits")],
)  # fmt: skip
def test_a_router_that_steps_or_holds_otherwise_is_found(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None], name: str
) -> None:
    change(monkeypatch)
    assert failures(f"devices/{name}", 6)
