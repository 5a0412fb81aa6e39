"""Groups as devices: names, what they hold, what they refuse, and a step of training."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.protocol import impossible
from calor.distributed import all_reduce, group
from calor.errors import (
    ArgumentError,
    DeviceError,
    DeviceLostError,
    MembersDifferError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from calor_distributed.backend import group_of

BOTH = group("numpy", "numpy")


def test_a_group_has_one_device_by_its_name() -> None:
    device = BOTH.device
    assert device.name == "group:numpy:0,numpy:0"
    assert calor.device("group:numpy, numpy") is device
    assert group([calor.device("numpy"), "numpy:0"]).device is device
    strict = calor.device("strict:group:numpy,numpy")
    assert strict.name == "strict:group:numpy:0,numpy:0"
    for found in (device, strict):
        assert pickle.loads(pickle.dumps(found)) is found
    assert (BOTH.size, repr(BOTH)) == (2, "group('numpy:0', 'numpy:0')")


def test_what_the_host_gives_all_members_have() -> None:
    with BOTH:
        x = calor.asarray([1.0, 2.0])
        made = x * 2
    assert [part.tolist() for part in BOTH.split(made)] == [[2.0, 4.0]] * 2
    assert made.to("numpy").tolist() == [2.0, 4.0]
    assert calor.ones(2, device="numpy").to(BOTH.device).device is BOTH.device


def test_a_look_at_different_arrays_says_what_to_do() -> None:
    x = BOTH.scatter(np.arange(4))
    with pytest.raises(MembersDifferError, match=r"members 0 and 1 .* group\.split\(x\)"):
        x.numpy()
    # A look in a debugger is no error.
    assert repr(x) == f"tensor(another int64[2] on each member, device='{BOTH.device.name}')"
    assert BOTH.gather(x).tolist() == [0, 1, 2, 3]
    nans = BOTH.join([np.array([np.nan, -0.0])] * 2)
    assert np.isnan(nans.numpy()[0])


def test_parts_are_cut_along_any_axis() -> None:
    given = np.arange(12).reshape(3, 4)
    x = BOTH.scatter(given, axis=-1)
    assert BOTH.split(x)[1].tolist() == given[:, 2:].tolist()
    assert BOTH.gather(x, axis=1).tolist() == given.tolist()


def test_parts_do_not_alias() -> None:
    first = calor.ones(2)
    x = BOTH.join([first, first])
    first += 1
    part = BOTH.split(x)[0]
    part += 5
    assert x.tolist() == [1.0, 1.0]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: BOTH.scatter(np.ones(3)), ShapeError, "into 2 equal parts"),
    (lambda: BOTH.scatter(np.ones(())), ShapeError, "does not divide"),
    (lambda: BOTH.join([calor.ones(1)]), ArgumentError, "join got 1 parts for a group of 2"),
    (lambda: BOTH.join([np.ones(1), np.ones(2)]), ShapeError, "need one shape and dtype"),
    (lambda: BOTH.split(calor.ones(1)), DeviceError, r"not on group:.*group\.scatter"),
    (lambda: group(), DeviceError, "the group has no members"),
    (lambda: group(BOTH.device, "numpy"), DeviceError, "is a group; name its members"),
    (lambda: group("numpy:1"), DeviceError, "no device"),
    (lambda: calor.device("group:"), DeviceError, "misses the name of a device"),
    (lambda: calor.device("group:numpy,"), DeviceError, "misses the name of a device"),
    (lambda: calor.set_memory_limit(1, BOTH.device), UnsupportedError, "no settable memory limit"),
]


@pytest.mark.parametrize(("run", "kind", "match"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_refusals(run: Callable[[], Any], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        run()


def test_a_group_says_what_all_its_members_can() -> None:
    info = group("numpy", "null").device.info
    null = calor.device("null").info
    assert "null:0" in info.description
    assert info.feature("in_place").level == null.feature("in_place").level
    assert info.feature("host_views").level == "impossible"
    assert info.supports("all_reduce", calor.float32).level == "partial"
    assert "counted" in info.supports("all_gather", calor.int8).reason
    assert group("numpy").device.info.supports("all_reduce", calor.float32).level == "full"


def test_a_member_without_a_dtype_is_named() -> None:
    class Narrow(type(calor.device("null").backend)):  # type: ignore[misc]
        name = "narrow"

        def info(self, index: int) -> Any:
            from dataclasses import replace

            found = super().info(index)
            return replace(found, dtypes={**found.dtypes, calor.float64: impossible("too wide")})

    device = group_of([calor.device("numpy"), Device(Narrow(), 0)])
    x = calor.asarray(np.ones(2), device=device)
    with pytest.raises(UnsupportedError, match="too wide"):
        (x + 1).numpy()


def test_running_out_of_memory_leaves_state_as_it_was() -> None:
    with BOTH:
        w = calor.ones(1000)

    @calor.jit
    def step(w: Any) -> Any:
        w += all_reduce(w)
        return calor.sum(w)

    step(w)
    before = w.numpy(copy=True)
    limit = calor.memory("numpy").in_use + 5000
    calor.set_memory_limit(limit, "numpy")
    try:
        with pytest.raises(OutOfMemoryError, match="numpy:0"):
            step(w)
    finally:
        calor.set_memory_limit(None, "numpy")
    assert w.numpy().tolist() == before.tolist()
    step(w)
    assert w.numpy()[0] == before[0] * 3


def test_a_failure_costs_only_what_depends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = BOTH.device.backend
    x, y = BOTH.scatter(np.ones(2)), BOTH.scatter(np.ones(2))

    def fail(*given: Any) -> Any:
        raise DeviceError("the link is down", op="all_reduce")

    with monkeypatch.context() as changed:
        changed.setattr(backend.copies, "_all_reduce", fail)
        lost, kept = all_reduce(x), y + 1
        assert kept.tolist() == [2.0]
        with pytest.raises(DeviceError, match="the link is down; in op 'all_reduce'"):
            lost.numpy()
    assert all_reduce(x).tolist() == [2.0]


def test_a_lost_member_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = BOTH.device.backend

    def fail(*given: Any) -> Any:
        raise DeviceLostError("numpy:0 is gone")

    x = BOTH.scatter(np.ones(6))
    with monkeypatch.context() as changed:
        changed.setattr(backend.copies, "_all_reduce", fail)
        made = all_reduce(x)
        with pytest.raises(DeviceLostError, match="gone"):
            made.numpy()
    # The token went with it; the group starts with another one when its members are there again.
    BOTH.device.token = None
    assert all_reduce(x + 0).tolist() == [2.0] * 3


def test_a_step_on_two_members_is_the_step_on_the_whole_batch() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 5)), rng.normal(size=(8, 3))

    def weights() -> Any:
        draw = np.random.default_rng(1)
        made = [calor.asarray(draw.normal(size=s)) for s in ((5, 3), (3,))]
        return [w.requires_grad_() for w in made]

    @calor.jit
    def step(ws: Any, x: Any, y: Any) -> Any:
        loss = calor.mean((calor.tanh(x @ ws[0]) + ws[1] - y) ** 2)
        loss.backward()
        calor.distributed.average_gradients(ws)
        with calor.no_grad():
            for w in ws:
                w -= 0.1 * w.grad
                w.grad = None
        return all_reduce(loss, "mean")

    one = weights()
    with BOTH:
        two = weights()
    for _ in range(3):
        alone = step(one, calor.asarray(x), calor.asarray(y)).item()
        together = step(two, BOTH.scatter(x), BOTH.scatter(y)).item()
        assert together == pytest.approx(alone, rel=1e-12)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)


def test_waiting_waits_for_all_and_raises_the_first_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = group("numpy", "null").device
    asked: list[str] = []

    def fail(index: int) -> None:
        asked.append("numpy")
        raise DeviceError("numpy failed")

    monkeypatch.setattr(calor.device("numpy").backend, "synchronize", fail)
    monkeypatch.setattr(
        calor.device("null").backend, "synchronize", lambda index: asked.append("null")
    )
    with pytest.raises(DeviceError, match="numpy failed"):
        device.backend.synchronize(0)
    assert asked == ["numpy", "null"]
