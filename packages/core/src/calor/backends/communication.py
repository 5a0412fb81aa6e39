"""The exchange of data between devices that reach each other, as a backend offers it.

Requirements: a backend with such devices states the feature and returns a Communicator. For all
other devices calor-distributed, which makes the groups, has one that copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor.backends.buffer import Buffer
from calor.specs import Spec

Exchange = Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Buffer]]]


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange of data.

    ``given`` and ``made`` are the specs of each member's operand and result. ``kind`` is the
    reduction and ``root`` the member that is the source; they are "" and −1 for ops without one.
    """

    op: str
    given: Spec
    made: Spec
    kind: str = ""
    root: int = -1


class Communicator(ABC):
    """Executes collectives of the devices for which it was made, in their order."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Tell whether it executes a collective with the meaning that calor defines."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return a function that executes collectives which do not depend on each other.

        The function is called with ``inputs``, where ``inputs[i][r]`` is the buffer of member r for
        call i, and returns new buffers in the same order. It runs after all work submitted to the
        devices before, and before all work submitted later; it may return before it has finished.
        It raises a DeviceError that says what failed.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; it is not used afterwards."""
