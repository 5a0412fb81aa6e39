"""What a profile is made of: an event for each piece of work that a device did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
