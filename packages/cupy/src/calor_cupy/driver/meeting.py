"""Synchronization of streams of several GPUs, by events.

Requirements: the host does not wait. An event belongs to one stream and is recorded again each
time, without effect on earlier waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor_cupy.driver.peers import QUEUEING
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Meeting

_WAITING: Final = "letting GPUs wait for each other"


class StreamMeeting(Meeting):
    """The streams of a group; they synchronize at the first."""

    lock = QUEUEING

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.hub = streams[0]
        self.runtime = runtime = self.hub.runtime
        events = []
        for stream in streams:
            with stream.told("making events"):
                stream.use()
                events.append(runtime.eventCreateWithFlags(runtime.eventDisableTiming))
        self.met, *come = events
        # For each other stream, the event of its progress.
        self.others = [(s.stream, e) for s, e in zip(streams[1:], come, strict=True)]

    def gather(self) -> None:
        """Let the first stream wait for all."""
        hub, record, wait = self.hub.stream, self.runtime.eventRecord, self.runtime.streamWaitEvent
        try:
            for stream, event in self.others:
                record(event, stream)
                wait(hub, event)
        except RuntimeError:
            with self.hub.told(_WAITING):
                raise

    def release(self) -> None:
        """Let all streams wait for the first."""
        met, wait = self.met, self.runtime.streamWaitEvent
        try:
            self.runtime.eventRecord(met, self.hub.stream)
            for stream, _ in self.others:
                wait(stream, met)
        except RuntimeError:
            with self.hub.told(_WAITING):
                raise

    def close(self) -> None:
        """Free the events."""
        with self.hub.told("freeing events"):
            for event in (self.met, *(event for _, event in self.others)):
                self.runtime.eventDestroy(event)
        self.others = []
