"""What a client has on a server's devices, and the commands that make, read and copy values.

Requirements: nothing is allocated before it is counted; what a client names is checked before a
device sees it, since devices trust their callers; a value that cannot be made keeps its error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from calor.backends.device import Device
from calor.compiling.partitioned import move
from calor.dtypes import as_dtype
from calor.errors import ArgumentError, CalorError, OutOfMemoryError, ProtocolError
from calor.graph.verify import spec_complaints
from calor.specs import Spec, spec
from calor.units import bytes_text
from calor_http.errors import LimitError, typed
from calor_http.frames import MESSAGE
from calor_http.server.blobs import Blobs
from calor_http.server.draining import Drain
from calor_http.server.handing import Handing
from calor_http.server.limits import Limits
from calor_http.server.quotas import Account
from calor_http.server.values import Value, Values, array_of

_log = logging.getLogger("calor_http")
# Contents up to this size travel in the answer itself.
_INLINE: Final = 1 << 18


class Room:
    """The values of one client on the devices of a server.

    Parameters
    ----------
    devices : sequence of Device
        The devices of the server.
    limits : Limits
        The limits of the server.
    handing : Handing
        What the server has to do with others.
    account : Account
        Who pays.
    drain : Drain
        Whether the server is about to end.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        limits: Limits,
        handing: Handing,
        account: Account,
        drain: Drain,
    ) -> None:
        self._account = account
        self.owner = account.name
        self.drain = drain
        self._devices = devices
        self._handing = handing
        self.limits = limits
        self.values = Values(limits.handles)
        most = max(limits.tensor_bytes, limits.graph_bytes)
        self.blobs = Blobs(most, self.reserve, self._host_memory)
        # The bytes of the constants of programs.
        self.constants = 0
        self._peaks = dict.fromkeys(devices, 0)
        # The bytes that the answer has so far.
        self.answered = 0

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Return the commands about values, by name."""
        return {
            "up": self._up,
            "take": self._take,
            "drop": self.values.drop,
            "copy": self._copy,
            "read": self._read,
            "offer": self._offer,
            "fetch": self._fetch,
            "forget": self.blobs.forget,
            "verify": self._verify,
            "sync": self._synchronize,
            "memory": self._memory,
        }

    def clear(self) -> None:
        """Free everything."""
        self.values.clear()
        self.blobs.clear()
        self.settle()

    @property
    def held(self) -> int:
        """The bytes of all that the client has."""
        return self.values.nbytes + self.blobs.nbytes + self.constants

    def settle(self) -> None:
        """Tell the account how many bytes are held."""
        self._account.memory.settle(self, self.held)

    def reserve(self, nbytes: int, op: str | None = None) -> None:
        """Raise OutOfMemoryError where bytes would pass what a client may hold."""
        held = self.held
        if held + nbytes > self.limits.client_bytes:
            raise OutOfMemoryError(
                f"the server lets a client hold {bytes_text(self.limits.client_bytes)}, of which "
                f"{bytes_text(held)} are in use and {bytes_text(nbytes)} more are needed; free "
                f"tensors",
                op=op,
            )
        self._account.reserve(self, held, nbytes, op)

    def device(self, index: Any) -> Device:
        """Return a device of the server."""
        if type(index) is not int or not 0 <= index < len(self._devices):
            raise ProtocolError(f"the server has no device {index!r}", rule="index")
        return self._devices[index]

    def _host_memory(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Return memory for what is uploaded, of which the first device copies fast."""
        device = self._devices[0]
        return device.backend.host_array(device.index, nbytes)

    def _spec(self, dtype: Any, shape: Any) -> Spec:
        sizes = tuple(shape)
        if any(type(n) is not int for n in sizes):
            raise ProtocolError(f"{shape!r} is no shape", rule="host")
        for complaint in spec_complaints(Spec(sizes, as_dtype(str(dtype)), False)):
            raise ArgumentError(f"sizes: {complaint}")
        known = spec(sizes, as_dtype(str(dtype)))
        if known.nbytes > self.limits.tensor_bytes:
            most = bytes_text(self.limits.tensor_bytes)
            raise LimitError(f"{known} is larger than {most}, the server's limit of a tensor")
        return known

    def _make(self, number: int, device: Device, known: Spec, make: Callable[[], Any]) -> None:
        """Keep a new value under a number, or the error that came in its place."""
        self.values.check_fresh([number])
        value = Value(device, known)
        try:
            self.drain.check()
            self.reserve(known.nbytes)
            value.buffer = make()
        except Exception as error:
            value.error = self.failed(error, device, ())
        self.values.put(number, value)
        self.raise_peak(device, 0)

    def failed(self, error: Exception, device: Device, state: Sequence[Value]) -> CalorError:
        """Note what a device raised, also for state that it was to write; return it typed."""
        if not isinstance(error, CalorError):
            _log.error("work of a client failed on %s", device.name, exc_info=error)
        return self.values.failed(typed(error, device.name), state)

    def raise_peak(self, device: Device, more: int) -> None:
        """Note that so many bytes more than those of the values are in use."""
        nbytes = self.values.on[device] + more
        if nbytes > self._peaks[device]:
            self._peaks[device] = nbytes

    def _up(self, number: int, index: int, dtype: str, shape: Any, data: bytes) -> None:
        device, known = self.device(index), self._spec(dtype, shape)
        array = array_of(data, known)
        self._make(number, device, known, lambda: device.backend.upload(device.index, array))

    def _take(self, number: int, index: int, dtype: str, shape: Any, blob: int) -> None:
        device, known = self.device(index), self._spec(dtype, shape)
        data: Any = b""
        refused: CalorError | None = None
        try:
            data = self.blobs.take(blob)
        except (LimitError, OutOfMemoryError) as error:
            refused = error

        def uploaded() -> Any:
            if refused is not None:
                raise refused
            # It is whole, so nothing writes to it any more: the device copies it while the client
            # is told, and while what was queued before still runs.
            made = device.backend.load(device.index, array_of(data, known))
            device.backend.loaded(device.index, [made])
            return made

        self._make(number, device, known, uploaded)

    def _copy(self, number: int, index: int, target: int, made: int) -> None:
        device, other = self.device(index), self.device(target)
        source = self.values.get(number, device)

        def copied() -> Any:
            if source.error is not None:
                raise source.error
            return move(source.buffer, device, other, source.spec)

        self._make(made, other, source.spec, copied)

    def _read(self, number: int, index: int, blob: int) -> Any:
        content = self._contents(number, index)
        self.answered += content.nbytes
        if content.nbytes <= _INLINE and self.answered <= MESSAGE // 2:
            return content.tobytes()
        self.blobs.offer(blob, content.data)
        return content.nbytes

    def _contents(self, number: int, index: int) -> np.ndarray[Any, Any]:
        """Return the bytes of a value, or raise what it depends on.

        They are a snapshot: the value may be written while its pieces are fetched.
        """
        device = self.device(index)
        value = self.values.get(number, device)
        buffer = self.values.look(value)
        with self._told():
            array = device.backend.offload(device.index, buffer, value.spec)
        return array.reshape(-1).view(np.uint8)

    def _offer(self, number: int, index: int) -> str:
        content = self._contents(number, index).data
        # The offer is counted apart, so what was freed before it has to be known.
        self.settle()
        return self._handing.offer(content, self._account)

    def _fetch(
        self, number: int, index: int, dtype: str, shape: Any, peer: str, secret: str
    ) -> None:
        device, known = self.device(index), self._spec(dtype, shape)

        def fetched() -> Any:
            data = self._handing.fetch(peer, secret, known.nbytes)
            return device.backend.upload(device.index, array_of(data, known))

        self._make(number, device, known, fetched)

    def _verify(self, index: int, numbers: Sequence[int]) -> None:
        device = self.device(index)
        buffers = [self.values.look(self.values.get(n, device)) for n in numbers]
        with self._told():
            device.backend.verify(device.index, buffers)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Note that the client sees what is raised."""
        try:
            yield
        except CalorError as error:
            self.values.seen(error)
            raise

    def _synchronize(self, index: int) -> None:
        device = self.device(index)
        device.backend.synchronize(device.index)
        self.values.look_at_all()

    def _memory(self, index: int) -> list[int]:
        device = self.device(index)
        in_use = self.values.on[device]
        return [in_use, max(in_use, self._peaks[device])]
