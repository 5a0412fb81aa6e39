"""Writing to a tensor: its handle is given another value, and whoever watches hears of it."""

from __future__ import annotations

from calor.local import local
from calor.recording.journal import note
from calor.recording.records import Leaf
from calor.tensor.values import Handle


def write(handle: Handle, new: Handle) -> None:
    """Give a handle the value and the gradient record of another; a leaf stays a leaf.

    Shape, dtype and device are the caller's to check.
    """
    if local.jit:
        trace = local.jit[-1]
        # The new value may be a tensor from outside, which is an input and no constant.
        trace.touch(new)
        trace.note_write(handle)
    note(handle)
    handle._value = new._value
    if type(handle._record) is not Leaf:
        handle._record = new._record
