"""How tensors are printed: as NumPy prints arrays.

Requirements: of a large tensor only the corners that are shown are downloaded; a traced value is
described, because it has no numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.device_selection import is_current
from calor.dtypes import DEFAULT_INT, bool_, default_complex, default_float
from calor.errors import MembersDifferError
from calor.ops.movement import concat
from calor.recording.trace import Trace
from calor.tensor.tensor import Tensor, with_methods
from calor.tensor.values import Handle

_PREFIX = "tensor("


@with_methods
class Printing(Tensor):
    """``repr``, ``str`` and ``format``."""

    __slots__ = ()

    def __repr__(self) -> str:
        if _is_traced(self):
            return f"traced {self._value.spec}"
        try:
            text = _numbers(self)
        except MembersDifferError:
            text = f"{_PREFIX}another {self._value.spec} on each member"
        indent = " " * len(_PREFIX)
        width = np.get_printoptions()["linewidth"]
        for part in _suffixes(self):
            last = text.rpartition("\n")[2]
            fits = len(last) + len(part) + len(", )") <= width
            text += f", {part}" if fits else f",\n{indent}{part}"
        return f"{text})"

    def __format__(self, format_spec: str) -> str:
        if not self._value.spec.shape and (format_spec or not _is_traced(self)):
            return format(self.item(), format_spec)
        if format_spec:
            raise TypeError(
                f"a format such as {format_spec!r} is for 0-d tensors, this one has shape "
                f"{self._value.spec.shape}; reduce it first, for example x.mean()"
            )
        return str(self)


def _is_traced(x: Handle) -> bool:
    trace = x._value.trace
    return isinstance(trace, Trace) and trace.jit


def _summarised(x: Any) -> bool:
    return bool(x.size > np.get_printoptions()["threshold"])


def _numbers(x: Any) -> str:
    options = np.get_printoptions()
    summarised = _summarised(x)
    edge = options["edgeitems"]
    array = (_corners(x, edge) if summarised else x.detach()).numpy()
    narrow = array.dtype.type.__module__ != "numpy"
    if narrow:
        # NumPy prints types that are not its own without aligning them.
        array = array.astype(np.float32)
    body = np.array2string(
        array,
        separator=", ",
        prefix=_PREFIX,
        threshold=0 if summarised else x.size,
        edgeitems=edge,
        precision=4 if narrow else None,
    )
    return f"{_PREFIX}{body}"


def _corners(x: Any, edge: int) -> Any:
    """Return the elements that a summary shows, with one more per axis where it shows dots."""
    corner: Any = x.detach()
    for axis, size in enumerate(x.shape):
        if size > 2 * edge + 1:
            lead = (slice(None),) * axis
            start, end = corner[(*lead, slice(edge + 1))], corner[(*lead, slice(size - edge, None))]
            corner = concat(start, end, axis=axis)
    return corner


def _suffixes(x: Any) -> list[str]:
    parts = []
    if _summarised(x) or (not x.size and x.ndim > 1):
        parts.append(f"shape={x.shape}")
    if x.dtype not in (default_float(), DEFAULT_INT, bool_, default_complex()):
        parts.append(f"dtype={x.dtype.name}")
    if not is_current(x.device):
        parts.append(f"device='{x.device.name}'")
    if x.requires_grad:
        parts.append("requires_grad=True")
    return parts
