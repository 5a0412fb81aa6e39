"""How devices that reach each other exchange what they have: what a backend gives for it.

Requirements: a backend whose devices reach each other says so and gives a Communicator;
calor-distributed makes groups of devices, and has one of copies for all others.
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
    """One exchange: the op's name, how arrays meet, which member is the source, and the specs.

    ``given`` and ``made`` are what each member has before and after. ``kind`` is "" and ``root`` −1
    where the op has none.
    """

    op: str
    given: Spec
    made: Spec
    kind: str = ""
    root: int = -1


class Communicator(ABC):
    """What carries out the collectives of the devices that it was made for, in their order."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Return whether it carries out a collective with the meaning that calor defines."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return what carries out collectives that do not depend on each other.

        It is called with ``inputs``, where ``inputs[i][r]`` is the buffer that member r gives to
        call i, and returns new buffers in the same order. What the devices were given before comes
        first, and what they are given later comes after; it may return before it is done. It raises
        a DeviceError that says what failed.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; it is not used afterwards."""
