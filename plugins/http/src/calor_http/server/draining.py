"""The end of a server without loss: no new work, and time to fetch what was computed.

Requirements: what runs ends; what was computed can be read for the time of a lease, and no longer,
so that the end comes whatever clients do; a second signal ends at once.
"""

from __future__ import annotations

import asyncio
import signal
from time import monotonic
from typing import Any, Final, Protocol

import uvicorn

from calor_http.errors import DrainingError

_TICK: Final = 0.05


class Drain:
    """Whether a server is about to end, and when.

    Parameters
    ----------
    seconds : float
        How long clients may fetch what they have.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def begin(self) -> None:
        """Take no more work."""
        if self._end is None:
            self._end = monotonic() + self._seconds

    @property
    def begun(self) -> bool:
        """Whether no more work is taken."""
        return self._end is not None

    @property
    def left(self) -> float:
        """The seconds until all sessions end."""
        return self._seconds if self._end is None else max(0.0, self._end - monotonic())

    def check(self) -> None:
        """Raise DrainingError once no more work is taken."""
        if self._end is None:
            return
        error = DrainingError(
            f"the server is about to end and computes nothing more; what it holds can be read for "
            f"{self.left:.0f} s: store it, and go on with another server, or with this one later"
        )
        error.retry_after = max(1.0, self.left)
        raise error


class Drained(Protocol):
    """A server that can be drained."""

    drain: Drain

    @property
    def clients(self) -> int:
        """How many clients have a session."""
        ...

    def end_empty(self) -> None:
        """End the sessions that hold nothing which their clients could fetch."""
        ...


class DrainingServer(uvicorn.Server):  # type: ignore[misc,unused-ignore]
    """Uvicorn's server, which drains before it ends.

    Parameters
    ----------
    config : uvicorn.Config
        What it runs.
    drained : Drained or None
        What has to be drained; None ends at once.
    """

    def __init__(self, config: uvicorn.Config, drained: Drained | None = None) -> None:
        super().__init__(config)
        self._drained = drained

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Drain at the first SIGTERM; end at a second one, and at Ctrl-C."""
        drained = self._drained
        if sig != signal.SIGTERM or drained is None:
            super().handle_exit(sig, frame)
        elif drained.drain.begun:
            self.should_exit = True
        else:
            drained.drain.begin()

    async def end_when_drained(self) -> None:
        """Wait for the beginning of a drain, and end the server when nothing is left to fetch."""
        drained = self._drained
        if drained is None:
            return
        while not drained.drain.begun:
            await asyncio.sleep(_TICK)
        while drained.clients and drained.drain.left:
            await asyncio.to_thread(drained.end_empty)
            await asyncio.sleep(_TICK)
        self.should_exit = True
