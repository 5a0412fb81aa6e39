"""Rows of functions that an installation may have beside calor's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..comparing import NEAR
from ..drawing import Arguments, Rng

Function = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A function of a package, how it is called, and what it means.

    Parameters
    ----------
    name : str
        The function's name in its package.
    draw : callable
        Draws positional and keyword arguments.
    meaning : callable
        The function in NumPy, for operands in float64.
    about : str, default ""
        What tells this way to call from others.
    call : callable, default None
        What is called with the package first, if that is not the function alone.
    without : str, default ""
        What is not asked of it, of `drawing.ASKS`.
    near : float, default 2e-5
        The largest error beside the number, or beside 1 if that is more.
    smooth : bool, default False
        Whether the derivative is compared with differences of the meaning.
    moves : bool, default False
        Whether a result may be as far off as it moves when operands move by their rounding: sums
        that cancel.
    least : int, default 6
        How often it is called where little is asked of it.
    """

    name: str
    draw: Callable[[Rng], Arguments] = field(repr=False)
    meaning: Function = field(repr=False)
    about: str = ""
    call: Function | None = field(default=None, repr=False)
    without: str = ""
    near: float = NEAR
    smooth: bool = False
    moves: bool = False
    least: int = 6

    @property
    def label(self) -> str:
        """The name and what tells this way from others."""
        return "-".join(filter(None, (self.name, self.about)))
