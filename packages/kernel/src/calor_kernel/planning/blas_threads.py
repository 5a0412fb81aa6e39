"""The threads of NumPy's OpenBLAS while it factorizes a small matrix.

Requirements: a factorization of OpenBLAS asks its threads at every column, and takes several times
as long with two of them as with one: QR of 256 by 128 numbers 4.7 ms in place of 1.2. The number is
the process's, so it is set back when the last of the calls that run at the same time ends. Another
library of linear algebra is left alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Final, NamedTuple

from numpy.linalg import _umath_linalg

# The names that builds of OpenBLAS give the functions.
_NAMES: Final = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
_VERBS: Final = ("get", "set")


class Threads(NamedTuple):
    """The functions that tell and set the number of threads."""

    get: Callable[[], int]
    set: Callable[[int], object]


@cache
def threads() -> Threads | None:
    """Return the functions of NumPy's OpenBLAS, None where it has another library."""
    try:
        library = ctypes.CDLL(str(_umath_linalg.__file__))
    except OSError:
        return None
    for name in _NAMES:
        # A library is searched together with those that it needs.
        get, change = (getattr(library, name.format(f"{v}_num_threads"), None) for v in _VERBS)
        if get is not None and change is not None:
            return Threads(get, change)
    return None


_LOCK: Final = Lock()
_calls, _before = 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Let OpenBLAS compute in the calling thread alone."""
    global _calls, _before
    known = threads()
    if known is None:
        yield
        return
    with _LOCK:
        if _calls == 0:
            _before = known.get()
            known.set(1)
        _calls += 1
    try:
        yield
    finally:
        with _LOCK:
            _calls -= 1
            if _calls == 0:
                known.set(_before)
