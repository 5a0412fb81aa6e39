"""A function of the host as an attribute of an op.

Requirements: it is compared by the function itself, so a program that is traced again is the same
program. It has no persistent text: no file and no cache on disk holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calor.errors import DTypeError, ShapeError
from calor.specs import Spec

# What is noted at an error of a function of the host.
_NOTE: Final = "raised in the callback"
Array = np.ndarray[Any, Any]


class HostCall:
    """A function from arrays to a sequence of arrays, and what its results have to be.

    Parameters
    ----------
    function : callable
        Takes one read-only array for each operand; returns a sequence of results.
    identity : hashable
        Calls of equal identity are the same.
    name : str
        What errors call it.
    results : sequence of Spec
        The results.
    """

    __slots__ = ("function", "identity", "name", "results")

    def __init__(
        self,
        function: Callable[..., Sequence[Any]],
        identity: object,
        name: str,
        results: Sequence[Spec],
    ) -> None:
        self.function: Final = function
        self.identity: Final = identity
        self.name: Final = name
        self.results: Final = tuple(results)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostCall):
            return NotImplemented
        return self.identity == other.identity and self.results == other.results

    def __hash__(self) -> int:
        return hash((self.identity, self.results))

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __call__(self, *operands: Array) -> tuple[Array, ...]:
        """Call the function.

        Parameters
        ----------
        *operands : numpy.ndarray
            The operands.

        Returns
        -------
        tuple of numpy.ndarray
            The results, as their specs say.

        Raises
        ------
        ShapeError
            If a result has another shape, or there are more or fewer.
        DTypeError
            If a result has another dtype.
        """
        given = []
        for x in operands:
            view = np.asarray(x).view()
            view.flags.writeable = False
            given.append(view)
        try:
            made = self.function(*given)
        except Exception as error:
            error.add_note(f"{_NOTE} {self.name}")
            raise
        if len(made) != len(self.results):
            raise ShapeError(
                f"callback: {self.name} returned {len(made)} results where {len(self.results)} "
                f"are declared"
            )
        return tuple(self._checked(*pair) for pair in zip(made, self.results, strict=True))

    def _checked(self, value: Any, wanted: Spec) -> Array:
        dtype = wanted.dtype.numpy
        # Numbers and lists have no dtype of their own.
        array = np.asarray(value) if hasattr(value, "dtype") else np.asarray(value, dtype)
        if array.shape != wanted.shape:
            raise ShapeError(
                f"callback: {self.name} returned an array of shape {array.shape} where {wanted} is "
                f"declared; change the function or its results="
            )
        if array.dtype != dtype:
            raise DTypeError(
                f"callback: {self.name} returned {array.dtype} where {wanted} is declared; cast it "
                f"in the function, or change results="
            )
        return np.ascontiguousarray(array).reshape(wanted.shape)


def of_host(error: Exception) -> bool:
    """Return whether a function of the host raised an error, which leaves the program as it is.

    Parameters
    ----------
    error : Exception
        The error.

    Returns
    -------
    bool
        Whether it passed through a `HostCall`.
    """
    return any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))
