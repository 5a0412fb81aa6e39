"""One access to a memory, as the checks see it."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from calor_interpreter.machine import Batch
from calor_interpreter.state import State
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]


class Access(NamedTuple):
    """An operation's access to elements of a memory, with the unit that makes each.

    ``places``: positions of elements in the memory, or of their cells.
    """

    batch: Batch
    operation: Operation
    state: State
    places: Array
    lanes: Array
    atomic: bool = False

    def fail(self, bad: Array, rule: str, message: str) -> NoReturn:
        """Raise the error of the first bad element."""
        first = int(np.argmax(bad))
        lane = int(self.lanes[first])
        index = int(self.places[first]) - self.state.start(lane)
        name = self.state.memory.name
        self.batch.fail(self.operation, rule, lane, message, memory=name, index=index)
