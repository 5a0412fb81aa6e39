"""Faults of running out of memory: what lives is lost, or nothing lives on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.backends.numpy_backend import NumpyBuffer, NumpyExecutable
from calor.errors import DeviceError, OutOfMemoryError

from .base import Array, Broken, Fault


def _failing(change: Any) -> type[Broken]:
    """Return a backend that does something more, or raises something else, when it runs out."""

    class Fails(NumpyExecutable):
        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            try:
                return super().__call__(inputs, into)
            except OutOfMemoryError as error:
                raise change(error, inputs, into) from None

    class Failing(Broken):
        executable = Fails

    return Failing


def _clears_inputs(error: OutOfMemoryError, inputs: Any, into: Any) -> Exception:
    for x in inputs:
        if isinstance(x, NumpyBuffer):
            x.array[...] = 0
    return error


def _clears_targets(error: OutOfMemoryError, inputs: Any, into: Any) -> Exception:
    for target in into or ():
        if target is not None:
            target.array[...] = 0
    return error


def _anonymous(error: OutOfMemoryError, inputs: Any, into: Any) -> Exception:
    return OutOfMemoryError(str(error.args[0]))


class Evicts(Broken):
    """To make room, the buffer that was uploaded last is thrown away."""

    def __init__(self) -> None:
        super().__init__()
        self.last: list[Array] = []

    def upload(self, index: int, array: Array) -> Any:
        """Upload, and remember what was uploaded."""
        made = super().upload(index, array)
        self.last = [*self.last[-3:], made.array]  # type: ignore[attr-defined]
        return made

    def reserve(self, index: int, nbytes: int) -> None:
        """Throw the newest large uploads away where there is no room."""
        try:
            super().reserve(index, nbytes)
        except OutOfMemoryError:
            for array in self.last:
                array[...] = 0
            raise


class DiesWhenFull(Broken):
    """After it ran out of memory, the device computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = False

    def reserve(self, index: int, nbytes: int) -> None:
        """Refuse everything after the first time."""
        if self.dead:
            raise DeviceError("broken: the device is in an error state")
        try:
            super().reserve(index, nbytes)
        except OutOfMemoryError:
            self.dead = True
            raise


FAULTS = [
    Fault(
        "inputs-lost-when-full",
        "a call that runs out of memory clears its inputs",
        _failing(_clears_inputs),
        ("memory/running_out",),
    ),
    Fault(
        "state-lost-when-full",
        "a call that runs out of memory has written in place already",
        _failing(_clears_targets),
        ("memory/state_after_running_out",),
    ),
    Fault(
        "live-tensors-evicted",
        "to make room, tensors that live are thrown away",
        Evicts,
        ("memory/running_out",),
    ),
    Fault(
        "running-out-names-no-op",
        "running out of memory names no op",
        _failing(_anonymous),
        ("memory/running_out",),
    ),
    Fault(
        "running-out-untyped",
        "running out of memory is a MemoryError of Python",
        _failing(lambda error, *_: MemoryError(str(error))),
        ("memory/running_out",),
    ),
    Fault(
        "dead-when-full",
        "after it ran out of memory the device computes nothing",
        DiesWhenFull,
        ("memory/running_out",),
    ),
]
