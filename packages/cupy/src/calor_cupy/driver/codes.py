"""The driver's error codes as calor's typed errors.

Requirements: every failure becomes a typed error in one place. The plugin's tables distinguish
codes for a lost device from codes for a missing one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError


@dataclass(frozen=True, slots=True)
class Codes:
    """A driver's codes with their messages: out of memory, lost device, no device, bad image.

    ``ask`` is the command that lists the system's devices.

    >>> codes = Codes("CUDA", {2}, {}, {100: "the driver finds no GPU"}, {}, "nvidia-smi")
    >>> print(codes.failure(2, "allocating 8 bytes", number=1))
    cuda:1: out of memory: allocating 8 bytes; free tensors, or compute in smaller parts
    """

    name: str
    memory: Collection[int]
    lost: Mapping[int, str]
    absent: Mapping[int, str]
    unfit: Mapping[int, str]
    ask: str

    @contextmanager
    def typed(self, what: str, number: int | None = None) -> Iterator[None]:
        """Convert the driver's errors to calor's; ``what`` names the attempted operation."""
        try:
            yield
        except RuntimeError as error:
            code = getattr(error, "status", None)
            if code is None:
                raise
            raise self.failure(int(code), what, str(error), number) from error

    def failure(
        self, code: int, what: str, said: str = "", number: int | None = None
    ) -> DeviceError:
        """Return the error for a code, with the GPU's number if known."""
        where = self.name if number is None else f"{self.name.lower()}:{number}"
        if code in self.memory:
            return OutOfMemoryError(
                f"{where}: out of memory: {what}; free tensors, or compute in smaller parts"
            )
        if code in self.lost:
            return DeviceLostError(
                f"{where}: {self.lost[code]}: {what}; this process cannot use the GPU any more, "
                f"nor load kernels on others of its kind, and a new process can"
            )
        if code in self.unfit:
            return DeviceError(
                f"{where}: {self.unfit[code]}: {what}; python -m calor doctor says more"
            )
        if code in self.absent:
            return DeviceError(
                f"{where}: {self.absent[code]}: {what}; `{self.ask}` says what there is, and "
                f"python -m calor doctor what is missing"
            )
        return DeviceError(f"{where}: {what}: {said or f'error {code}'}")
