"""What the error codes of a driver mean to calor.

Requirements: every failure becomes a typed error in one place; what makes a device unusable, and
what says that there is none, are told apart by tables of the plugin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of a driver: out of memory, a lost device, and no device, with what each says.

    ``ask`` is what shows the system's devices.

    >>> codes = Codes("CUDA", {2}, {}, {100: "the driver finds no GPU"}, "nvidia-smi")
    >>> print(codes.failure(100, "looking for GPUs"))
    CUDA: the driver finds no GPU: looking for GPUs; `nvidia-smi` says what there is
    """

    name: str
    memory: Collection[int]
    lost: Mapping[int, str]
    absent: Mapping[int, str]
    ask: str

    @contextmanager
    def typed(self, what: str) -> Iterator[None]:
        """Turn errors of the driver into those of calor; ``what`` says what was tried."""
        try:
            yield
        except RuntimeError as error:
            code = getattr(error, "status", None)
            if code is None:
                raise
            raise self.failure(int(code), what, str(error)) from error

    def failure(self, code: int, what: str, said: str = "") -> DeviceError:
        """Return the error that a code stands for."""
        if code in self.memory:
            return OutOfMemoryError(
                f"{self.name}: out of memory: {what}; free tensors, or compute in smaller parts"
            )
        if code in self.lost:
            return DeviceLostError(
                f"{self.name}: {self.lost[code]}: {what}; this process cannot use the GPU any "
                f"more, a new one can"
            )
        if code in self.absent:
            return DeviceError(
                f"{self.name}: {self.absent[code]}: {what}; `{self.ask}` says what there is"
            )
        return DeviceError(f"{self.name}: {what}: {said or f'error {code}'}")
