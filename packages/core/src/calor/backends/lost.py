"""What stands for a device that a forked child inherited and cannot use."""

from __future__ import annotations

from typing import Any, NoReturn

from calor.backends.protocol import Backend, Info
from calor.errors import DeviceLostError


class LostBackend(Backend):
    """Describes the device as before, and raises DeviceLostError for everything else."""

    def __init__(self, backend: Backend, info: Info) -> None:
        self.name = backend.name
        # Kept alive: what its end would do to the driver is the parent's business.
        self._backend = backend
        self._info = info

    def enumerate(self) -> int:
        """Return 0: no device can be opened."""
        return 0

    def info(self, index: int) -> Info:
        """Return the description from before the fork."""
        return self._info

    def refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise DeviceLostError."""
        raise DeviceLostError(
            f"{self.name} was opened before this process was forked, and its driver does not work "
            f'in the child; start processes with multiprocessing.get_context("spawn"), or use '
            f"{self.name} in the child only"
        )

    upload = download = copy = claim = compile = synchronize = memory = refuse
    from_dlpack = cuda_array_interface = communicator = refuse
    set_memory_limit = dlpack = dlpack_device = adopt = serialize = deserialize = refuse


class LostExecutable:
    """An executable of a lost device."""

    required_bytes = 0

    def __init__(self, backend: LostBackend) -> None:
        self._backend = backend

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise DeviceLostError."""
        self._backend.refuse()
