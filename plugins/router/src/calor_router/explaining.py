"""Which member runs what: ``calor.router.explain``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.device_selection import current_device
from calor.errors import ArgumentError
from calor.transforms.jit import Jitted, jit
from calor_router.executable import RoutedExecutable
from calor_router.told import Placement


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Placement:
    """Return which member of a router runs which part of a function, and why.

    Parameters
    ----------
    function : callable
        The function, of `calor.jit` or a plain one.
    *args : Any
        The arguments of a call, on a router. The function is called once.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    Placement
        The parts in their order, with the bytes that are moved and the reason of each node that is
        not on the first member. Printed it is a text.

    Raises
    ------
    ArgumentError
        If the call computes on no router.

    Examples
    --------
    >>> import calor
    >>> with calor.device("router:numpy"):
    ...     print(calor.router.explain(calor.exp, calor.ones(2)))
    1 part on numpy:0; a call moves 0 values, 0 B
      1. numpy:0: 1 exp
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    jitted(*args, **kwargs)
    for program in jitted.programs[:1]:
        if isinstance(program.executable, RoutedExecutable):
            return program.executable.placement()
    name = current_device().name
    raise ArgumentError(
        f"explain tells of programs on a router, and this one ran on {name}; make the arguments on "
        f'one: calor.device("router:cuda,cpu")'
    )
