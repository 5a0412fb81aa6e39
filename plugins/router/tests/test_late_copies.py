"""Values whose copies to the host are under way: who reads them waits, and loads do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of
from calor.dtypes import ALL
from calor_router.buffer import HostBuffer, HostBytes

from .test_limits import drawn, trained
from .toys import PRODUCTS, Toy, routed, toy


class Late(Toy):
    """A device whose copies to the host come when they are waited for, or loaded again."""

    def __init__(self, name: str, takes: Any = None) -> None:
        super().__init__(name, takes, ALL)
        self.coming: dict[int, tuple[Any, Any]] = {}
        self.waits = 0

    def unload(self, index: int, buffer: Any, spec: Any) -> Any:
        array = np.full(spec.nbytes, 0xFF, np.uint8).view(spec.dtype.numpy).reshape(spec.shape)
        self.coming[array.ctypes.data] = array, np.array(buffer.array)
        return array

    def unloaded(self, index: int) -> None:
        self.waits += 1
        for array, contents in self.coming.values():
            array[...] = contents
        self.coming.clear()

    def load(self, index: int, array: Any) -> Any:
        _, contents = self.coming.get(array.ctypes.data, (None, array))
        return self.upload(index, contents.reshape(array.shape))


def late(name: str, takes: Any = None) -> Device:
    return device_of(Late(name, takes), 0)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_programs_whose_copies_are_late(seed: int) -> None:
    """Products on one member, the rest on another, both with a limit of few values."""
    members = late("a", PRODUCTS), late("b")
    limits: Mapping[Device, int] = dict(
        zip(members, (1024 * (3 + seed % 3), 1024 * (4 + seed % 2)), strict=True)
    )
    device = routed(*members, limits=tuple(limits.values()))
    graph = drawn(seed)
    backend: Any = device.backend
    rng = np.random.default_rng(seed)
    given = [rng.normal(size=(16, 16)).astype(np.float32) / 4 for _ in range(2)]
    run = backend.compile(0, graph)
    want = calor.device("numpy").backend
    for _ in range(2):
        made = run([backend.upload(0, x) for x in given])
        assert not any(member.backend.coming for member in members), "a run ends with what it left"
        known = want.compile(0, graph)([want.upload(0, x) for x in given])
        for one, other, spec in zip(made, known, graph.output_specs, strict=True):
            assert np.array_equal(backend.download(0, one, spec), want.download(0, other, spec))
    assert all(member.memory.peak <= limit for member, limit in limits.items())


@pytest.mark.parametrize("beside", [False, True])
def test_training_whose_copies_are_late(beside: bool) -> None:
    member = late("small")
    others = (toy("other", ("tanh",)),) if beside else ()
    device = routed(member, *others, limits=(40_000, *(None for _ in others)))
    losses, weights, last = trained(device)
    wanted, known, _ = trained("numpy")
    assert losses == wanted
    assert all(np.array_equal(a, b) for a, b in zip(weights, known, strict=True))
    step, *arguments = last()
    backend: Any = member.backend
    before = backend.waits
    with calor.device(device):
        step(*arguments)
    if not beside:
        assert backend.waits == before + 1, "once, at the end of a run"


def test_a_buffer_is_waited_for_once() -> None:
    backend = Late("one")
    device = device_of(backend, 0)
    array = np.zeros(3)
    buffer = HostBuffer(array, HostBytes(), device)
    assert buffer.nbytes == 24
    assert buffer.for_load(device) is array
    assert backend.waits == 0
    assert buffer.for_load(toy("other")) is array
    assert buffer.array is array
    assert backend.waits == 1
