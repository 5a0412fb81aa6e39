"""Timing what a function computes: ``calor.timeit``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.errors import ArgumentError
from calor.local import local
from calor.recording.trace import flush_all
from calor.tensor.values import Handle


@dataclass(frozen=True, slots=True, repr=False)
class Timing:
    """How long the runs of a function took.

    Parameters
    ----------
    seconds : tuple of float
        The time of each run in seconds, in order.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median, in seconds."""
        ordered, middle = sorted(self.seconds), len(self.seconds) // 2
        return (ordered[middle] + ordered[~middle]) / 2

    @property
    def min(self) -> float:
        """The shortest, in seconds."""
        return min(self.seconds)

    def __repr__(self) -> str:
        runs = len(self.seconds)
        return (
            f"median {_readable(self.median)}, min {_readable(self.min)} "
            f"({runs} run{'s' if runs != 1 else ''})"
        )


def _readable(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def timeit(
    function: Callable[..., Any], /, *args: Any, repeat: int = 10, warmup: int = 2, **kwargs: Any
) -> Timing:
    """Measure how long a function takes until its results are computed, not only recorded.

    Parameters
    ----------
    function : callable
        Called as ``function(*args, **kwargs)``.
    *args : Any
        Its arguments. Pending tensors among them are computed first.
    repeat : int, optional
        The number of measured runs. By default 10.
    warmup : int, optional
        The number of runs before them, in which kernels are compiled. By default 2.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    Timing
        ``seconds`` of each run, and their ``median`` and ``min``.

    Raises
    ------
    ArgumentError
        If ``repeat`` is less than 1.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones((64, 64))
    >>> timing = calor.timeit(lambda a: a + a, x, repeat=3)
    >>> len(timing.seconds), timing.min <= timing.median
    (3, True)
    """
    if repeat < 1:
        raise ArgumentError(f"timeit: repeat must be at least 1, not {repeat}")
    _finish((args, kwargs))
    for _ in range(warmup):
        _finish(function(*args, **kwargs))
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        _finish(function(*args, **kwargs))
        seconds.append(time.perf_counter() - start)
    return Timing(tuple(seconds))


def _finish(result: Any) -> None:
    """Compute what is pending in this thread and wait for its devices."""
    from calor.transforms.evaluate import eval

    tensors = [leaf for leaf in tree.leaves(result) if isinstance(leaf, Handle)]
    eval(tensors)
    flush_all()
    for device in {*local.traces, *(t._value.device for t in tensors)}:
        device.backend.synchronize(device.index)
