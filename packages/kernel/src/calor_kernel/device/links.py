"""Links: memory exchange between devices of a plugin.

Requirements: a device declares them by the feature "links".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from calor.backends.communication import Collective

Handles = Sequence[Sequence[Any]]


class Meeting(ABC):
    """The synchronization of several devices' queues, for kernels that access all their memory.

    A handle of one device's memory is then valid in the kernels of every other. ``lock`` is held
    while joint work is queued.
    """

    lock: AbstractContextManager[Any]

    @abstractmethod
    def gather(self) -> None:
        """Let the first device wait for the queued work of all."""

    @abstractmethod
    def release(self) -> None:
        """Let all devices wait for the queued work of the first."""


class Links(ABC):
    """Memory exchange between several devices, in the order of each device's queue."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Return whether a collective is supported with its definition, for its dtype too."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return a function that queues collectives as one.

        Its arguments are ``given`` and ``made``: ``given[i][r]`` and ``made[i][r]`` are the handles
        of member r's input and result of call i.
        """

    def meeting(self) -> Meeting | None:
        """Return how the devices synchronize; None if kernels cannot access all memory."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; unusable afterwards."""
