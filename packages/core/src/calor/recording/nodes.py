"""The nodes that are pending: the lists that a trace records into."""

from __future__ import annotations

import threading
from typing import Any

from calor.backends.device import Device
from calor.config import config
from calor.graph.op import Signature
from calor.recording.codes import leaf
from calor.specs import Spec
from calor.tensor.values import Value


class Nodes:
    """Pending nodes of one thread on one device; :class:`Trace` records and computes them."""

    __slots__ = (
        "codes",
        "count",
        "cuts",
        "device",
        "due",
        "inputs",
        "leaves",
        "lines",
        "room",
        "sites",
        "small",
        "tail",
        "thread",
        "values",
    )

    jit = False
    aside = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.thread = threading.get_ident()
        self.cuts: set[tuple[Signature, ...]] = set()
        self.reset()

    def reset(self) -> None:
        """Start empty; the lists are new, so that another thread's snapshot stays whole."""
        self.codes: list[Any] = []
        self.inputs: list[Any] = []
        self.leaves: dict[Value, int] = {}
        self.values: list[Value] = []
        self.lines: dict[int, str] = {}
        self.sites: list[Any] = []
        self.tail: list[Signature] = []
        self.count = 0
        self.due = False
        self.small = config.trace_nodes // 2
        self.room = -1 if config.eager or config.debug else config.trace_nodes

    def locate(self, value: Value) -> int:
        """Return the position of a value, adding it as an input where it is not pending here."""
        raise NotImplementedError

    def flush(self) -> None:
        """Compute every pending value that somebody holds, and empty the trace."""
        raise NotImplementedError

    def input(self, given: Any, spec_: Spec, host: bool) -> int:
        """Return the position of an input of another trace, a host number or a value."""
        return self.add_input(given, spec_, True) if host else self.locate(given)

    def add_input(self, given: Any, spec_: Spec, host: bool) -> int:
        """Append an input node and return its position."""
        self.codes.append(leaf(spec_, host))
        self.inputs.append(given)
        position = self.count
        self.count = position + 1
        if not host:
            self.leaves[given] = position
            if 0 <= self.room < self.small:
                self.fall_due()
        return position

    def fall_due(self) -> None:
        """Have the trace flushed after the op that is being recorded.

        Called where a trace that is no longer small meets a tensor from outside or makes a new one,
        which is where an outer loop begins its turn. Were the cuts left to the places of the inner
        loop, the turns of the outer one would begin at another place of the trace each time.
        """
        self.due = True
        self.room = 0
