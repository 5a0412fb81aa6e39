"""Errors on the way: what a server raises becomes data, and an error of the same type here.

Requirements: only types of the list are made from what arrives; an error that is no error of calor
tells its type and nothing else, since its text may speak of the server's insides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from calor import errors
from calor.errors import CalorError, DeviceError, DeviceLostError


class LeaseLostError(DeviceLostError):
    """The server no longer holds what this client had on it: it restarted, or the lease ended."""


class LimitError(DeviceError):
    """A request passes a limit that the server's operator set."""


class QuotaError(LimitError):
    """A token has used up what the server's operator gives it.

    Attributes
    ----------
    retry_after : float
        The seconds after which the same request may be taken; 0 if waiting does not help.
    """

    retry_after: float = 0.0


class MemoryQuotaError(QuotaError, errors.OutOfMemoryError):
    """The programs of a token hold as many bytes as its operator gives them. They are intact."""


class DrainingError(DeviceLostError):
    """The server is about to end: what it holds can be read, and nothing more is computed.

    Attributes
    ----------
    retry_after : float
        The seconds after which a server may be there again.
    """

    retry_after: float = 0.0


class TokenError(DeviceError):
    """The server does not know the token. What the client has there stays for its lease."""


class TokenExpiredError(TokenError):
    """The time of a token is over."""


def _own(things: Iterable[object]) -> list[type[CalorError]]:
    return [t for t in things if isinstance(t, type) and issubclass(t, CalorError)]


_KINDS: Final[Mapping[str, type[CalorError]]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in [
            *_own(vars(errors).values()),
            LeaseLostError,
            LimitError,
            QuotaError,
            MemoryQuotaError,
            DrainingError,
            TokenError,
            TokenExpiredError,
        ]
    }
)
# What errors have beside their text, and what it may be.
_DETAILS: Final[Mapping[str, type]] = MappingProxyType(
    {"op": str, "index": int, "axis": int, "size": int, "smallest": int, "retry_after": float}
)


def typed(error: BaseException, device: str = "the server") -> CalorError:
    """Return an error of calor for any error."""
    if isinstance(error, CalorError):
        return error
    if isinstance(error, MemoryError):
        return errors.OutOfMemoryError(f"{device} ran out of memory")
    return DeviceError(f"{device} failed: {type(error).__name__}; its log says more")


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return an error as data."""
    known = typed(error)
    kinds = [kind.__name__ for kind in type(known).__mro__ if kind.__name__ in _KINDS]
    found: dict[str, Any] = {"kind": kinds[0], "text": str(known.args[0]) if known.args else ""}
    for name, kind in _DETAILS.items():
        value = getattr(known, name, None)
        if type(value) is kind:
            found[name] = value
    if isinstance(known, errors.ProtocolError):
        found["rule"] = known.rule
    return found


def decode_error(data: Any) -> CalorError:
    """Return the error that `encode_error` made data of."""
    if not isinstance(data, dict):
        return DeviceError(f"the server answered with {type(data).__name__} where an error belongs")
    kind = _KINDS.get(str(data.get("kind")), DeviceError)
    text = str(data.get("text"))
    if issubclass(kind, errors.ProtocolError):
        return kind(text, rule=str(data.get("rule")))
    made = kind(text)
    for name, wanted in _DETAILS.items():
        value = data.get(name)
        if type(value) is wanted and hasattr(made, name):
            setattr(made, name, value)
    return made
