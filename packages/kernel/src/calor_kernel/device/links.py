"""Links: how a device plugin lets devices of its kind exchange memory.

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
    """How the queues of some devices wait for each other, where kernels reach the memory of all.

    A handle of one device's own memory is then one in the kernels of each other. ``lock`` is held
    while what several of them do together is queued.
    """

    lock: AbstractContextManager[Any]

    @abstractmethod
    def gather(self) -> None:
        """Let the first device wait for what all were given."""

    @abstractmethod
    def release(self) -> None:
        """Let all wait for what the first device was given."""


class Links(ABC):
    """The means by which some devices exchange memory, in the order of each device's queue."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Return whether a collective has its meaning here, for its dtype too."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return what queues collectives as one.

        It is called with ``given`` and ``made``: ``given[i][r]`` and ``made[i][r]`` are handles of
        what member r has before and after call i.
        """

    def meeting(self) -> Meeting | None:
        """Return how the devices wait for each other; None where kernels do not reach all."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; it is not used afterwards."""
