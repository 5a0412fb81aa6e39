"""Refusing what runs elsewhere than on the first member: ``calor.router.strict()``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from calor.errors import UnsupportedError


class Asked:
    """How many blocks of `strict` are open in all threads: none is quickly known."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Own(threading.local):
    depth = 0


asked: Final = Asked()
_own: Final = _Own()
_lock: Final = threading.Lock()


@contextmanager
def strict() -> Iterator[None]:
    """Refuse programs of which an operation runs elsewhere than on a router's first member.

    It holds for the calls of a thread in a ``with`` block.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    UnsupportedError
        In the block, by a program of which an operation is on another member. The message names
        the operations, with the reason for each.

    Examples
    --------
    >>> import calor
    >>> with calor.device("router:numpy"), calor.router.strict():
    ...     print((calor.ones(2) + 1).tolist())
    [2.0, 2.0]
    """
    _add(1)
    try:
        yield
    finally:
        _add(-1)


def _add(count: int) -> None:
    _own.depth += count
    with _lock:
        asked.count += count


def refuse_elsewhere(name: str, found: Sequence[tuple[str, int]]) -> None:
    """Raise the error of a program with operations on other members, in a block that asks for it.

    Parameters
    ----------
    name : str
        The router.
    found : sequence of tuple of str and int
        The operations with their reasons, and how often each occurs.

    Raises
    ------
    UnsupportedError
        If the thread is in a block of `strict`.
    """
    if not _own.depth:
        return
    listed = "; ".join(why if n == 1 else f"{why} ({n} times)" for why, n in found)
    raise UnsupportedError(
        f"{name} runs operations elsewhere than on its first member, and calor.router.strict() "
        f"refuses that: {listed}"
    )
