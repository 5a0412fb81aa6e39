"""Buffers of wgpu.

Requirements: copies have whole words; the driver keeps a buffer as long as it needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.errors import OutOfMemoryError
from calor.units import bytes_text
from calor_kernel.device.words import Piece, WordMemory

from ._bindings import APART, STORAGE, Stream, typed


class WgpuMemory(WordMemory):
    """Buffers of a device. A handle is a Piece."""

    apart = APART

    def __init__(self, stream: Stream, parts: bool) -> None:
        self.stream = stream
        self.parts = parts

    def alloc(self, nbytes: int) -> Piece:
        """Return a buffer."""
        most = self.stream.device.limits["max-buffer-size"]
        if nbytes > most:
            raise OutOfMemoryError(
                f"a buffer of {bytes_text(nbytes)} exceeds the device's limit of "
                f"{bytes_text(most)}; compute in smaller parts"
            )
        size = max(-(-nbytes // 64) * 64, 64)
        with typed(f"allocating {nbytes} bytes"):
            return Piece(self.stream.device.create_buffer(size=size, usage=STORAGE), 0, size)

    def free(self, handle: Piece) -> None:
        """Release a buffer; the driver keeps it until submitted work is done."""
        with self.stream.lock, typed("freeing a buffer"):
            if not self.stream.lost:
                self.stream.submit()
            handle.buffer.destroy()

    def part(self, handle: Piece, offset: int, nbytes: int) -> Piece | None:
        """Return a part if its offset fits the adapter's alignment of bindings."""
        return super().part(handle, offset, nbytes) if self.parts else None

    def put(self, buffer: Any, start: int, data: np.ndarray[Any, Any]) -> None:
        """Write words, after the waiting work."""
        with self.stream.lock, typed(f"writing {len(data)} bytes"):
            self.stream.submit()
            self.stream.device.queue.write_buffer(buffer, start, data)

    def read(self, buffer: Any, start: int, nbytes: int) -> np.ndarray[Any, Any]:
        """Read words, after the waiting work."""
        with self.stream.lock, typed(f"reading {nbytes} bytes"):
            return self.stream.read(buffer, start, nbytes)

    def move(self, target: Any, at: int, source: Any, start: int, nbytes: int) -> None:
        """Copy words, in the order of the queue."""
        with self.stream.lock, typed(f"copying {nbytes} bytes"):
            self.stream.copy(target, at, source, start, nbytes)
            self.stream.waiting.add(1, 2 * nbytes)
