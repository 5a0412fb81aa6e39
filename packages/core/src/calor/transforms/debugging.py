"""Finding where a NaN comes from: ``calor.debug_nans``."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from calor.config import NANS_ALONE, NANS_AND_INFINITIES, config
from calor.local import local
from calor.recording.trace import flush_all


class debug_nans:
    """Context in which the first op that makes a NaN or an infinity raises an error.

    Each op is computed when it is called and its results are looked at, also within jitted
    functions and control flow, which run as plain Python. The error names the op, the user's line
    and the path of the module. Programs are much slower; the setting is that of the process.
    ``CALOR_DEBUG_NANS=1`` in the environment sets it for a whole program, ``CALOR_DEBUG_NANS=nan``
    without infinities.

    Infinities that are meant are no error: those of constants, such as the −inf of a mask, and what
    ops make of them. An op that makes NaN is an error whatever its operands are.

    Parameters
    ----------
    infinities : bool, optional
        Whether an infinity that finite operands give is an error too. By default True.

    Raises
    ------
    NonFiniteError
        At the op, within the context.

    Examples
    --------
    >>> import calor
    >>> @calor.jit
    ... def loss(x):
    ...     return calor.log(x - 1).sum()
    >>> with calor.debug_nans():
    ...     loss(calor.asarray([2.0, 1.0]))
    Traceback (most recent call last):
      ...
    calor.errors.NonFiniteError: log made an infinity in float32[2] (1 of 2 elements, ...
    """

    def __init__(self, *, infinities: bool = True) -> None:
        self._nans = NANS_AND_INFINITIES if infinities else NANS_ALONE
        self._before: list[tuple[str, bool, bool]] = []

    def __enter__(self) -> Self:
        self._before.append((config.nans, config.eager, config.jit))
        self._set(self._nans, True, False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._set(*self._before.pop())

    def _set(self, nans: str, eager: bool, jit: bool) -> None:
        # What is pending was recorded before; the traces begin anew with the other setting.
        flush_all()
        config.nans, config.eager, config.jit = nans, eager, jit
        for trace in local.traces.values():
            trace.reset()
