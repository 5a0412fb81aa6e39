"""Exchange of GPU memory with other libraries, by CuPy's DLPack support.

Requirements: memory that fits the request is not copied. Readers wait for writers on the device,
not on the host, by the streams that both sides name. CuPy, which knows every version of the
protocol, is imported at the first exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from calor.dtypes import as_dtype
from calor.errors import ExchangeError
from calor.specs import Spec, spec
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Exchange


class CupyExchange(Exchange):
    """Exchange on the stream of a device.

    ``place``: its type and number in DLPack. ``cupy`` imports CuPy, and returns it.
    """

    def __init__(self, place: tuple[int, int], stream: Stream, cupy: Callable[[], Any]) -> None:
        self.place = place
        self.stream = stream
        self.cupy = cupy

    @contextmanager
    def _ours(self) -> Iterator[Any]:
        """Select the device and the stream in CuPy, and yield CuPy."""
        cupy = self.cupy()
        with cupy.cuda.Device(self.place[1]), cupy.cuda.Stream.from_external(self.stream):
            yield cupy

    def dlpack(self, handle: int, spec: Spec, owner: Any, **options: Any) -> Any:
        """Return CuPy's capsule; the consumer's stream, if it names one, waits for ours."""
        with self._ours() as cupy:
            memory = cupy.cuda.UnownedMemory(handle, max(spec.nbytes, 1), owner, self.place[1])
            pointer = cupy.cuda.MemoryPointer(memory, 0)
            array = cupy.ndarray(spec.shape, spec.dtype.numpy, pointer)
            return array.__dlpack__(**options)

    def take(self, array: Any, copy: bool) -> tuple[int, Spec, Any]:
        """Return address, spec and owner; our stream waits for the producer's."""
        with self._ours() as cupy:
            found = cupy.from_dlpack(array)
            if not found.flags.c_contiguous:
                if not copy:
                    raise ExchangeError(
                        "from_dlpack: copy=False needs dense row-major memory; pass copy=None"
                    )
                found = cupy.ascontiguousarray(found)
        return int(found.data.ptr), spec(found.shape, as_dtype(found.dtype)), found
