"""What a server answers where it does nothing else: the status and the frame for an error."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Final

from starlette.requests import ClientDisconnect

from calor.errors import ArgumentError, CalorError, FormatError
from calor_http.errors import (
    DrainingError,
    LeaseLostError,
    LimitError,
    QuotaError,
    TokenExpiredError,
    encode_error,
    typed,
)
from calor_http.frames import pack

_log = logging.getLogger("calor_http")
# Of a body that nobody wants, no more is taken.
CLOSE: Final[Mapping[str, str]] = {"Connection": "close"}
_TOKEN: Final = {"WWW-Authenticate": "Bearer", **CLOSE}


class Refused(Exception):
    """Someone without the token."""


def refusal(error: BaseException) -> tuple[int, bytes, Mapping[str, str]]:
    """Return the status, the frame and the fields of the head that answer an error."""
    match error:
        case Refused():
            known: CalorError = ArgumentError("the token is missing or wrong")
            return 401, failed(known), _TOKEN
        case TokenExpiredError():
            return 401, failed(error), _TOKEN
        case DrainingError():
            return 503, failed(error), {**CLOSE, "Retry-After": _seconds(error.retry_after)}
        case LeaseLostError():
            return 404, failed(error), {}
        case QuotaError() if error.retry_after:
            return 429, failed(error), {"Retry-After": _seconds(error.retry_after), **CLOSE}
        case LimitError():
            return 413, failed(error), CLOSE
        case FormatError():
            return 422, failed(error), {}
        case CalorError():
            return 400, failed(error), {}
        case TimeoutError() | ClientDisconnect():
            return 408, failed(FormatError("the request did not arrive in time")), CLOSE
        case _:
            _log.error("a request failed", exc_info=error)
            return 500, failed(typed(error)), {}


def failed(error: CalorError) -> bytes:
    """Return the frame that tells an error."""
    return pack({"error": encode_error(error)})


def _seconds(wait: float) -> str:
    """Return a field Retry-After, which is in whole seconds."""
    return str(max(1, math.ceil(wait)))
