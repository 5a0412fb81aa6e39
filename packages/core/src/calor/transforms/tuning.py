"""``calor.tune``: measure the candidates of a compiled function's kernels, and keep the fastest.

Requirements: nothing of the function runs, so its state is as before. The time is limited. Results
are stored by the device, so later processes have them without measuring.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from calor.backends.device import Device
from calor.backends.protocol import Tuned
from calor.device_selection import as_device
from calor.errors import ArgumentError, UnsupportedError
from calor.transforms.bound import Bound
from calor.transforms.jit import Jitted
from calor.transforms.program import JittedFunction

__all__ = ["Tuned", "tune"]

_ONE_WAY = "has one way to do each operation, so nothing is tuned"


def measuring(device: Device, seconds: float) -> AbstractContextManager[Tuned]:
    """Return a context in which the kernels of all graphs compiled for a device are measured.

    Parameters
    ----------
    device : Device
        The device.
    seconds : float
        The time for measuring, in seconds.

    Returns
    -------
    context manager of Tuned
        What was measured, complete when the context ends.

    Raises
    ------
    ArgumentError
        If ``seconds`` is not positive.
    UnsupportedError
        If the device has nothing to measure.

    Examples
    --------
    >>> import calor
    >>> measuring(calor.ones(2, device="numpy").device, 1.0)
    Traceback (most recent call last):
      ...
    calor.errors.UnsupportedError: numpy:0 has one way to do each operation, so nothing is tuned
    """
    if not seconds > 0:
        raise ArgumentError(f"tune: seconds={seconds!r} leaves no time; pass a positive number")
    made = device.backend.tuning(device.index, seconds)
    if made is None:
        raise UnsupportedError(f"{device.name} {_ONE_WAY}")
    return made


def export(device: Device, file: str | Path) -> int:
    """Write the choices that tuning has found and stored for a device to a file, a bundle.

    Parameters
    ----------
    device : Device
        The device.
    file : str or Path
        The file; a plugin ships a folder of such files by the hook ``calor_tuned``.

    Returns
    -------
    int
        How many choices there are: problems with a faster kernel than the first choice.

    Raises
    ------
    UnsupportedError
        If the device has nothing to tune.

    Examples
    --------
    >>> import calor
    >>> export(calor.ones(2, device="numpy").device, "numpy.json")
    Traceback (most recent call last):
      ...
    calor.errors.UnsupportedError: numpy:0 has one way to do each operation, so nothing is tuned
    """
    found = device.backend.bundle(device.index)
    if found is None:
        raise UnsupportedError(f"{device.name} {_ONE_WAY}")
    # A line for each choice, so that versions of a file can be compared.
    Path(file).write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", "utf-8")
    return len(found["choices"])


def tune(function: Any, *args: Any, seconds: float = 60.0, **kwargs: Any) -> Tuned:
    """Measure the kernels of a compiled function on its device, and use the fastest from now on.

    Parameters
    ----------
    function : Jitted or Bound
        What :func:`calor.jit` returned, or its ``bind``. It is compiled for these arguments and
        does not run.
    *args : Any
        The arguments of a call; their shapes and dtypes count.
    seconds : float, optional
        The time for measuring, in seconds. Kernels that take most of the time are measured first;
        when the time is over, the rest keeps its first choice.
    **kwargs : Any
        The keyword arguments of the call.

    Returns
    -------
    Tuned
        What was measured and what changed.

    Raises
    ------
    ArgumentError
        If ``function`` is not compiled by :func:`calor.jit`, or ``seconds`` is not positive.
    UnsupportedError
        If the device has nothing to measure.

    Notes
    -----
    Results are stored on disk by kind of problem, with sizes rounded up to powers of two, and hold
    for every program on this device. ``python -m calor tune SCRIPT`` does the same for all that a
    script compiles.

    References
    ----------
    Whaley and Dongarra, "Automatically Tuned Linear Algebra Software", 1998.

    Examples
    --------
    >>> import calor
    >>> f = calor.jit(lambda x, y: x @ y)
    >>> x = calor.ones((64, 64), device="cpu")  # doctest: +SKIP
    >>> calor.tune(f, x, x, seconds=5).problems  # doctest: +SKIP
    1
    >>> calor.tune(f, calor.ones((2, 2), device="numpy"), calor.ones((2, 2), device="numpy"))
    Traceback (most recent call last):
      ...
    calor.errors.UnsupportedError: numpy:0 has one way to do each operation, so nothing is tuned
    """
    jitted: JittedFunction
    if isinstance(function, Jitted):
        jitted, given = function, args
    elif isinstance(function, Bound):
        jitted, given = function.jitted, (*function.args, *args)
    else:
        raise ArgumentError(
            f"tune: {getattr(function, '__name__', function)} is not compiled; pass "
            "calor.jit(function)"
        )
    device = jitted.device_of(given, kwargs)
    with as_device(device), measuring(device, seconds) as tuned:
        # All plans of the device may change their choices, and are made again when asked for.
        device.plans.clear()
        jitted.trace_again(given, kwargs)
    if isinstance(function, Bound):
        function.forget()
    return tuned
