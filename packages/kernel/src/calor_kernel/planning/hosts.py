"""Host numbers: arguments of each call, packed into one block of memory for kernels.

Requirements: a learning rate and a step counter cost a microsecond per call, not ten. A number is
converted as by NumPy to the input's dtype.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.specs import Spec

_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
}


class HostBlock:
    """The layout of a plan's host numbers: input, spec and offset of each, and the total bytes."""

    def __init__(self, hosts: Sequence[tuple[int, Spec, int]], nbytes: int) -> None:
        self.hosts = tuple(hosts)
        self.nbytes = nbytes
        self.numbers = tuple(number for number, _, _ in hosts)
        self._struct = _layout(hosts, nbytes)

    def pack(self, inputs: Sequence[Any]) -> tuple[bytes, Sequence[tuple[int, Any]]]:
        """Return the block's bytes, and the places whose numbers are device buffers."""
        if self._struct is not None:
            try:
                return self._struct.pack(*[inputs[i] for i in self.numbers]), ()
            except (struct.error, TypeError, OverflowError):
                pass  # NumPy converts a number of another type than its dtype.
        block = np.zeros(self.nbytes, np.uint8)
        buffers = []
        for number, known, place in self.hosts:
            given = inputs[number]
            if hasattr(given, "handle"):
                buffers.append((place, given))
                continue
            array = np.asarray(given, known.dtype.numpy)
            block[place : place + known.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        return block.tobytes(), buffers


def _layout(hosts: Sequence[tuple[int, Spec, int]], nbytes: int) -> struct.Struct | None:
    """Return the struct for scalar numbers; None if one is an array or has no struct format."""
    parts = ["="]
    end = 0
    for _, known, place in hosts:
        code = _CODES.get(known.dtype.name)
        if code is None or known.shape:
            return None
        parts.append(f"{place - end}x{code}")
        end = place + known.nbytes
    parts.append(f"{nbytes - end}x")
    return struct.Struct("".join(parts))
