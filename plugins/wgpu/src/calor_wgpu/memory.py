"""Buffers of wgpu, and what waits to be submitted.

Requirements: encoding and submitting cost more than a dispatch, so that dispatches wait in one
compute pass until somebody needs what they compute, or enough of them wait; a part of a buffer is
no object of the driver's; copies are of whole words, and what is left of a piece is put together on
the host.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.errors import DeviceError, OutOfMemoryError
from calor_kernel.runtime.device import Memory

from ._bindings import STORAGE, typed

_BATCH: Final = 64  # dispatches that wait at most
WORD: Final = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a buffer: where it begins, and its bytes."""

    buffer: Any
    start: int
    nbytes: int


class Stream:
    """What waits to be submitted, in order. Its methods are called with its lock held."""

    def __init__(self, opened: Any, limited: bool) -> None:
        self.device = opened
        # Where kernels tell that a loop did not come to its end, on a device that ends them.
        self.trouble: Any = opened.create_buffer(size=WORD, usage=STORAGE) if limited else None
        self.lock = threading.RLock()
        self._encoder: Any = None
        self._pass: Any = None
        self._waiting = 0

    def commands(self) -> Any:
        """Return the compute pass."""
        if self._pass is None:
            self._pass = self.encoder().begin_compute_pass()
        return self._pass

    def encoder(self) -> Any:
        """Return the encoder, for what is no dispatch where no pass is open."""
        if self._encoder is None:
            self._encoder = self.device.create_command_encoder()
        return self._encoder

    def between(self) -> Any:
        """Return the encoder after the dispatches that wait."""
        if self._pass is not None:
            self._pass.end()
            self._pass = None
        return self.encoder()

    def queued(self, dispatches: int) -> None:
        """Count dispatches, and submit when enough wait."""
        self._waiting += dispatches
        if self._waiting >= _BATCH:
            self.submit()

    def submit(self) -> None:
        """Hand over everything that waits."""
        if self._encoder is not None:
            finished = self.between().finish()
            self._encoder, self._waiting = None, 0
            self.device.queue.submit([finished])

    def check(self) -> None:
        """Raise what went wrong in kernels since the last look."""
        if self.trouble is None:
            return
        self.submit()
        queue = self.device.queue
        if any(queue.read_buffer(self.trouble)):
            queue.write_buffer(self.trouble, 0, bytes(WORD))
            raise DeviceError(
                "the driver ended a loop before its end, which Mesa's software device does after "
                "65535 turns; compute in smaller parts, or on another device"
            )


class WgpuMemory(Memory):
    """Buffers of a device. A handle is a Piece."""

    def __init__(self, stream: Stream, most: int, parts: bool) -> None:
        self.stream = stream
        self.most = most
        self.parts = parts
        self._between: Any = None

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer."""
        if nbytes > self.most:
            raise OutOfMemoryError(
                f"the device has buffers of up to {self.most} bytes, and none of {nbytes}; "
                f"compute in parts"
            )
        size = max(-(-nbytes // 64) * 64, 64)
        with typed(f"allocating {nbytes} bytes"):
            buffer = self.stream.device.create_buffer(size=size, usage=STORAGE)
        return Piece(buffer, 0, size)

    def free(self, handle: Piece) -> None:
        """Release a buffer; the driver keeps it until what was submitted is done."""
        with self.stream.lock, typed("freeing a buffer"):
            self.stream.submit()
            handle.buffer.destroy()

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece | None:
        """Return a part, which needs no object of the driver's."""
        return Piece(handle.buffer, handle.start + offset, nbytes) if self.parts else None

    def copy_in(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Write from the host, after what waits."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start, end = handle.start + offset, handle.start + offset + len(data)
        if not len(data):
            return
        with self.stream.lock, typed(f"writing {len(data)} bytes"):
            if start % WORD or end % WORD:
                whole = self._words(handle.buffer, start, end).copy()
                whole[start % WORD :][: len(data)] = data
                data, start = whole, start // WORD * WORD
            self.stream.submit()
            self.stream.device.queue.write_buffer(handle.buffer, start, data)

    def copy_out(self, handle: Piece, offset: int, array: np.ndarray[Any, Any]) -> None:
        """Read to the host, and wait for it."""
        target = array.reshape(-1).view(np.uint8)
        start = handle.start + offset
        if not len(target):
            return
        with self.stream.lock, typed(f"reading {len(target)} bytes"):
            whole = self._words(handle.buffer, start, start + len(target))
            self.stream.check()
        target[:] = whole[start % WORD :][: len(target)]

    def _words(self, buffer: Any, start: int, end: int) -> np.ndarray[Any, Any]:
        self.stream.submit()
        first, last = start // WORD * WORD, -(-end // WORD) * WORD
        read = self.stream.device.queue.read_buffer(buffer, first, last - first)
        return np.frombuffer(read, np.uint8)

    def copy(self, target: Piece, at: int, source: Piece, offset: int, nbytes: int) -> None:
        """Copy between pieces, in the order of the queue; what is no whole word by the host."""
        to, of = target.start + at, source.start + offset
        whole = 0 if to % WORD or of % WORD else nbytes // WORD * WORD
        if whole:
            with self.stream.lock, typed(f"copying {nbytes} bytes"):
                self._copy_words(target.buffer, to, source.buffer, of, whole)
        if nbytes > whole:
            rest = np.empty(nbytes - whole, np.uint8)
            self.copy_out(source, offset + whole, rest)
            self.copy_in(target, at + whole, rest)

    def _copy_words(self, target: Any, to: int, source: Any, of: int, nbytes: int) -> None:
        encoder = self.stream.between()
        if source is target:
            # A buffer is not copied to itself.
            if self._between is None or self._between.size < nbytes:
                self._between = self.stream.device.create_buffer(size=nbytes, usage=STORAGE)
            encoder.copy_buffer_to_buffer(source, of, self._between, 0, nbytes)
            source, of = self._between, 0
        encoder.copy_buffer_to_buffer(source, of, target, to, nbytes)
        self.stream.queued(1)
