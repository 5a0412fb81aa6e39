"""Capabilities: declared features work, and working features are declared.

A feature that is full or partial must work; one that is not_yet or impossible must raise
UnsupportedError. Both are tested, so that tables of devices are reliable.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError
from calor.graph.graph import Graph
from calor.specs import Spec, spec

from .base import Place, compiled, plain_array, plain_type
from .contract import Contracts

contract = Contracts("features")


def _numbers() -> Any:
    return plain_array([1.0, 2.0, 3.0])


def _known() -> Spec:
    return spec((3,), plain_type())


def _graph() -> Graph:
    return calor.trace(lambda x: x * 2 + 1, calor.asarray(_numbers()))


def holds(place: Place, feature: str, work: Callable[[], Any]) -> None:
    """Check that a feature works exactly if it is declared."""
    state = place.plain.info.feature(feature)
    refused: UnsupportedError | None = None
    try:
        work()
    except UnsupportedError as error:
        refused = error
    if refused is not None:
        assert not state, f"{feature} is {state}, yet: {refused}; declare it not_yet or impossible"
        return
    assert state, (
        f"{feature} works, but info says {state}: a capability is held back; declare it full"
    )


@contract("an executable writes into given buffers when in_place is declared", looks=False)
def in_place(place: Place) -> None:
    device = place.plain
    executable = compiled(place, _graph())
    given, target = (device.backend.upload(device.index, _numbers()) for _ in range(2))

    def work() -> None:
        (made,) = executable([given], [target])
        assert made is target, "another buffer was returned than the one to write"
        got = np.array(device.backend.download(device.index, target, _known()))
        assert got.tolist() == [3.0, 5.0, 7.0], f"the buffer holds {got}"

    if device.info.feature("in_place"):
        work()
        return
    try:
        work()
    except (AssertionError, CalorError):
        return
    raise AssertionError("buffers are written in place: in_place is held back; declare it full")


@contract(
    "a download is a read-only view when host_views is full, and counts as exported; an adopted "
    "array is shared",
    looks=False,
)
def host_views(place: Place) -> None:
    device = place.plain

    def work() -> None:
        # It begins within another, as arrays may.
        array = plain_array([0, 1, 2, 3])[1:]
        buffer = device.backend.adopt(device.index, array)
        shared = buffer.exported
        assert shared, "exported is False while the host has the memory"
        array[0] = 7
        got = np.array(device.backend.download(device.index, buffer, _known()))
        assert got.tolist() == [7.0, 2.0, 3.0], f"the adopted array is not shared: {got}"

    holds(place, "host_views", work)
    if device.info.feature("host_views").level != "full":
        return
    buffer = device.backend.upload(device.index, _numbers())
    before = buffer.exported
    assert not before, "a buffer that nobody looks at counts as exported"
    view = device.backend.download(device.index, buffer, _known())
    assert not view.flags.writeable, "the view can be written"
    held = buffer.exported
    assert held, "exported is False while a view lives"
    part = view[1:]
    del view
    held = buffer.exported
    assert held, "exported is False while a part of a view lives"
    del part
    left = buffer.exported
    assert not left, "exported stays True after the view has died"


@contract("DLPack works when it is declared, and is refused when not", looks=False)
def dlpack(place: Place) -> None:
    device = place.plain
    buffer = device.backend.upload(device.index, _numbers())
    holds(place, "dlpack", lambda: device.backend.dlpack(device.index, buffer, _known()))


@contract("devices meet by their own means when that is declared", looks=False)
def collectives(place: Place) -> None:
    backend = place.plain.backend

    def work() -> None:
        backend.communicator(range(backend.enumerate())).close()

    holds(place, "collectives", work)


@contract("a memory limit can be set, read back and taken away when it is declared", looks=False)
def memory_limit(place: Place) -> None:
    device = place.plain
    before = device.memory.limit

    def work() -> None:
        device.backend.set_memory_limit(device.index, 1 << 40)
        read = device.memory.limit
        device.backend.set_memory_limit(device.index, before)
        assert read == 1 << 40, f"the limit was set to {1 << 40} and reads {read}"
        left = device.memory.limit
        assert left == before, f"the limit was set back to {before} and reads {left}"

    holds(place, "memory_limit", work)


_CHILD = """
import sys
import numpy as np
import calor
from calor.dtypes import as_dtype
from calor.specs import spec
kind = as_dtype(sys.argv[2])
with calor.device(sys.argv[1]) as device:
    executable = device.backend.deserialize(device.index, sys.stdin.buffer.read())
    given = device.backend.upload(device.index, np.array([1, 2, 3], kind.numpy))
    (made,) = executable([given])
    print(device.backend.download(device.index, made, spec((3,), kind)).tolist())
"""


@contract(
    "executables can be stored, and loaded here and in another process, when it is declared",
    tier="compiled",
    looks=False,
)
def serialize(place: Place) -> None:
    device = place.plain
    backend, index = device.backend, device.index
    executable = compiled(place, _graph())
    stored: list[bytes] = []

    def work() -> None:
        stored.append(backend.serialize(index, executable))
        (made,) = backend.deserialize(index, stored[0])([backend.upload(index, _numbers())])
        got = np.array(backend.download(index, made, _known()))
        assert got.tolist() == [3.0, 5.0, 7.0], f"the loaded executable gives {got}"
        _same_when_loaded(place)

    holds(place, "serialize", work)
    if stored and _installed(place):
        assert type(stored[0]) is bytes, f"serialize returned a {type(stored[0]).__name__}"
        command = [sys.executable, "-c", _CHILD, device.name, plain_type().name]
        done = subprocess.run(command, input=stored[0], capture_output=True, check=False)
        assert done.stdout.strip() in (b"[3.0, 5.0, 7.0]", b"[3, 5, 7]"), done.stderr.decode()[
            -500:
        ]


def _same_when_loaded(place: Place) -> None:
    """Check that a graph of several outputs is the same after storing and loading."""
    backend, index = place.plain.backend, place.plain.index
    tensors = calor.asarray(_numbers()), calor.asarray(_numbers() * 2)
    executable = compiled(place, calor.trace(lambda x, y: (x - y * 3, x + 2, y), *tensors))
    loaded = backend.deserialize(index, backend.serialize(index, executable))
    one, other = executable.required_bytes, loaded.required_bytes
    assert one == other, f"loaded, {other} bytes are announced, {one} before"
    given = [backend.upload(index, x) for x in (_numbers(), _numbers() * 2)]
    for before, after in zip(executable(given), loaded(given), strict=True):
        want, got = (np.array(backend.download(index, x, _known())) for x in (before, after))
        assert got.tolist() == want.tolist(), f"loaded, it gives {got}, and {want} before"


def _installed(place: Place) -> bool:
    """Return whether another process finds the device by its name."""
    try:
        return calor.device(place.plain.name).backend is place.plain.backend
    except CalorError:
        return False


def _forked(connection: Any, place: Place) -> None:
    try:
        with calor.device(place.plain):
            connection.send(place.call(lambda x: x * 2, calor.asarray(_numbers())).tolist())
    except CalorError as error:
        connection.send(f"{type(error).__name__}: {error}")
    finally:
        connection.close()
        os._exit(0)


@contract(
    "a forked child computes when fork is declared, and gets a typed error when not",
    tier="full",
    looks=False,
)
def fork(place: Place) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        return
    # The device has been used, which is when a fork goes wrong.
    place.call(lambda x: x + 1, calor.asarray(_numbers())).numpy()
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_forked, args=(there, place))
    child.start()
    there.close()
    try:
        said = here.recv() if here.poll(60) else "nothing within a minute"
    except EOFError:
        said = "nothing: the child process died"
    child.kill()
    child.join()
    state = place.plain.info.feature("fork")
    if state:
        assert said == [2.0, 4.0, 6.0], f"fork is {state}, and the child said {said}"
    else:
        assert isinstance(said, str), f"a forked child works: fork is held back ({state})"
        assert "Error" in said, f"a forked child gets no typed error but {said}"


@contract(
    "a look computes what is pending, or is refused by a typed error where the device is not "
    "interactive",
    looks=False,
)
def interactive(place: Place) -> None:
    x = calor.asarray(_numbers()) * 2
    if place.interactive:
        assert x.tolist() == [2.0, 4.0, 6.0]
        return
    refused: CalorError | None = None
    try:
        x.numpy()
    except UnsupportedError as error:
        refused = error
    jitted = calor.jit(lambda x: x * 2)(calor.asarray(_numbers()))
    assert jitted.tolist() == [2.0, 4.0, 6.0]
    assert refused is not None, "a look compiled although the device is not interactive"


@contract("a graph of any size computes; a new size is no new error", tier="full", looks=False)
def dynamic_shapes(place: Place) -> None:
    step = calor.jit(lambda x: x * 2 + 1)
    for n in (1, 2, 3, 5, 16, 17, 31, 64, 100):
        values = plain_array(np.arange(n) % 30)
        assert (step(calor.asarray(values)).numpy() == values * 2 + 1).all(), f"at size {n}"


@contract(
    "a device for quantised graphs alone refuses others; one that does not say so takes them",
    looks=False,
)
def quantized_only(place: Place) -> None:
    step = calor.jit(lambda x: x * 2)

    def work() -> None:
        assert step(calor.asarray(_numbers())).tolist() == [2.0, 4.0, 6.0]

    if not place.plain.info.feature("quantized_only"):
        work()
        return
    error: UnsupportedError | None = None
    try:
        work()
    except UnsupportedError as caught:
        error = caught
    kind = plain_type()
    assert error is not None or not kind.is_inexact, f"{kind.name} computes: it is held back"


@contract("an op has the same bits in every program, unless mixed_rounding is declared")
def mixed_rounding(place: Place) -> None:
    draws = np.random.default_rng([place.seed, 97])
    x, y = (calor.asarray(plain_array(draws.uniform(0.5, 2.0, 301))) for _ in "xy")
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, y: x * y,
        lambda x, y: x / y,
        lambda x, y: x * y + y,
        lambda x, y: (x - y) * (x - y) - x,
        lambda x, y: calor.exp(x),
        lambda x, y: calor.tanh(x),
        lambda x, y: calor.sqrt(x),
        lambda x, y: calor.sin(x) * y,
    ]
    alone = [place.call(function, x, y).numpy() for function in functions]
    beside = place.call(lambda x, y: [f(x, y) for f in functions] + [(x * y).sum()], x, y)
    spread = 16 * float(np.finfo(alone[0].dtype).eps)
    bound = spread if place.plain.info.feature("mixed_rounding") else 0.0
    for n, (a, b) in enumerate(zip(alone, beside, strict=False)):
        apart = np.abs(a - b.numpy()).max() / np.abs(a).max()
        assert apart <= bound, (
            f"program {n} of one output and the same computation in a program of "
            f"{len(beside)} outputs differ by {apart:.1e} of the largest number; keep each op's "
            f"rounding, or declare mixed_rounding"
        )


@contract("synchronize waits and returns; so it does when nothing was submitted", looks=False)
def synchronize(place: Place) -> None:
    calor.synchronize(place.device)
    x = place.call(lambda x: x * 2, calor.asarray(_numbers()))
    calor.synchronize(place.device)
    assert x.tolist() == [2.0, 4.0, 6.0]
    place.plain.backend.synchronize(place.plain.index)


CHECKS = contract.checks
