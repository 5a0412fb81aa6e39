"""What every request passes: who sends it, whether it may now, and what is written down of it.

Requirements: nothing of a request is read before its sender is known; whatever is wrong with it,
the answer is a typed error as a frame, and never a traceback; who is told to come later is told
when. It knows nothing of HTTP and waits for nothing, so that requests of all ways pass it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

from calor_http.server.audit import AuditLog
from calor_http.server.limits import Limits
from calor_http.server.metrics import Metrics
from calor_http.server.quotas import Account
from calor_http.server.refusals import refusal
from calor_http.server.session import Told
from calor_http.server.tokens import Keyring

_DONE: Final = "done"


@dataclass(slots=True)
class Asked:
    """A request on its way.

    Parameters
    ----------
    route : str
        What it is for, one of a fixed list.
    peer : str
        The address that it came from.
    header : str or None
        Its field ``Authorization``; None where a secret stands in the token's place.
    frees : bool, optional
        Whether it only gives back, so that no rate holds it up.
    """

    route: str
    peer: str
    header: str | None
    frees: bool = False
    # What becomes known: the sender, the bytes of the body, and what the audit log tells.
    account: Account | None = None
    # Whether it counts as one that waits or runs until it is answered.
    counts: bool = False
    came: int = 0
    # Its commands, where they are done when it is answered.
    told: Told | None = None
    more: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=perf_counter)

    @property
    def sender(self) -> Account:
        """Who sent it."""
        assert self.account is not None, "a request without a sender"
        return self.account


@dataclass(frozen=True, slots=True)
class Answer:
    """The frame of an answer, its status, its fields, and its result for the audit log."""

    frame: Any
    status: int = 200
    headers: Mapping[str, str] | None = None
    result: str = _DONE


class Admission:
    """Who gets in, and what is written down.

    Parameters
    ----------
    keyring : Keyring
        Whom the server knows.
    limits : Limits
        The limits of the server.
    metrics : Metrics
        Where requests are counted.
    audit : AuditLog
        Where they are written down.
    """

    def __init__(self, keyring: Keyring, limits: Limits, metrics: Metrics, audit: AuditLog) -> None:
        self.keyring = keyring
        self.audit = audit
        self._limits = limits
        self._metrics = metrics
        self._refused = metrics.counter("refused", "Requests that were refused.", "why")
        self._commands = metrics.counter("commands", "Commands that were run.", "command")

    def share(self, whole: int) -> int:
        """Return a token's part of what the server has for all, where its quota says nothing."""
        return max(2, whole // max(1, len(self.keyring.accounts)))

    def begin(self, asked: Asked) -> None:
        """Let a request in: its sender is known, and may have it done now."""
        if asked.header is None:
            return
        account = asked.account = self.keyring.account(asked.header)
        if not asked.frees:
            account.admit()
        account.enter(self.share(self._limits.requests))
        asked.counts = True

    def refuse(self, asked: Asked, error: BaseException) -> Answer:
        """Return what answers an error."""
        status, frame, headers = refusal(error)
        why = "token" if status == 401 else type(error).__name__
        if status in (401, 429, 503):
            self._refused.labels(why).inc()
        return Answer(frame, status, headers, why)

    def end(self, asked: Asked, answer: Answer) -> None:
        """Write a request down, which is answered."""
        account = asked.account
        if asked.counts and account is not None:
            asked.counts = False
            account.leave()
        if asked.told is not None:
            self.write_down(asked, asked.told)
        went = len(answer.frame)
        seconds = perf_counter() - asked.began
        self._metrics.answered(asked.route, answer.status, seconds, asked.came, went)
        self.audit.write(
            asked.route,
            None if account is None else account.name,
            asked.peer,
            answer.result,
            nbytes=asked.came + went,
            status=answer.status,
            **asked.more,
        )

    def write_down(self, asked: Asked, told: Told) -> None:
        """Write down what a request's commands were."""
        asked.more["commands"] = dict(told.commands)
        for name, count in told.commands.items():
            self._commands.labels(name).inc(count)
        for what, digest, nbytes, result in told.graphs:
            self.audit.write(
                what,
                asked.sender.name,
                asked.peer,
                result,
                nbytes=nbytes,
                digest=digest,
                session=asked.more.get("session"),
            )


def peer_of(address: Sequence[Any] | None) -> str:
    """Return the text of an address that a request came from."""
    return f"{address[0]}:{address[1]}" if address else ""
