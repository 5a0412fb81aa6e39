"""What a profile is made of: an event for each piece of work that a device did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from calor.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Event:
    """One launch of a kernel, or one op of a device that runs op by op.

    Parameters
    ----------
    op : str
        The op.
    blueprint : str
        The kernel and its parameters; empty if the op's name says all.
    start : float
        When it began, in seconds on the host's clock (``time.perf_counter``); in a profile since
        the profile began.
    seconds : float
        How long it took.
    nbytes : int, optional
        The bytes that it reads and writes at least.
    flops : int, optional
        The arithmetic operations that it does at least.
    cubes : tuple of int, optional
        The cubes of the launch.
    covers : tuple of str, optional
        The ops of the graph that it computes.
    results : tuple of str, optional
        The shapes and dtypes of its results.
    least : float, optional
        The shortest time that the device's measured ceilings allow, in seconds; 0 if not known.
    """

    op: str
    blueprint: str
    start: float
    seconds: float
    nbytes: int = 0
    flops: int = 0
    cubes: tuple[int, int, int] = (1, 1, 1)
    covers: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    least: float = 0.0


Listener = Callable[[Sequence[Event]], None]


class Watched:
    """What of a backend tells others about its work and its memory."""

    def device_name(self, index: int) -> str:
        """Return the name by which users ask for a device.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        str
            The name.
        """
        raise NotImplementedError

    def memory_owner(self, index: int) -> tuple[Any, int]:
        """Return the backend and the device that count a device's memory.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        tuple
            The backend and the index; by default this one. A backend that wraps another one returns
            that one's, so that nobody adds up the same bytes twice.
        """
        return self, index

    def profiling(self, index: int, listener: Listener) -> AbstractContextManager[None]:
        """Return a context in which a device reports each piece of work with its time.

        Parameters
        ----------
        index : int
            The device.
        listener : callable
            Called with the events of each piece of work, once it is done. Their ``start`` is the
            host's ``time.perf_counter``. One that listens already is called once all the same.

        Returns
        -------
        context manager
            The context.

        Raises
        ------
        UnsupportedError
            By default: the device cannot tell times.
        """
        raise UnsupportedError(
            f"{self.device_name(index)} does not tell the times of its work; calor.timeit measures "
            f"whole functions"
        )
