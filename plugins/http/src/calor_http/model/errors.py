"""What a request for a model may be refused with: an HTTP status and a text for its sender."""

from __future__ import annotations

from typing import Any, Final

from calor.errors import (
    ArgumentError,
    CalorError,
    DTypeError,
    ElementIndexError,
    OutOfMemoryError,
    ShapeError,
)
from calor_http.errors import typed

# Errors of a run that another request would not have: its shapes, its elements.
_OF_THE_REQUEST: Final = (ArgumentError, DTypeError, ElementIndexError, ShapeError, ValueError)


class Refused(CalorError):
    """A request that is not answered with a result.

    Parameters
    ----------
    status : int
        The HTTP status.
    text : str
        What is wrong, and what to do.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return Refused, (self.status, str(self))


def refused(error: BaseException) -> Refused:
    """Return the refusal for an error of a run; one that is no error of calor tells its type."""
    if isinstance(error, Refused):
        return error
    known = typed(error, "the model")
    if isinstance(known, OutOfMemoryError):
        return Refused(503, str(known))
    of_the_request = isinstance(known, _OF_THE_REQUEST)
    return Refused(400 if of_the_request else 500, str(known))
