"""The check of ``calor.debug_nans``: each op is computed at once, and its results are looked at.

Requirements: the first op whose results are not finite is named with its line and module. What is
meant stays: constants, data without operands, and infinities that were there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from calor.config import NANS_ALONE, config
from calor.errors import NonFiniteError
from calor.graph.attributes import Scalar
from calor.graph.op import Signature
from calor.lines import user_line
from calor.local import local
from calor.recording.sites import path_of
from calor.tensor.values import Value


class Found(NamedTuple):
    """What a value holds that is not finite: how many of each, and where the first one is."""

    nans: int
    infinities: int
    size: int
    first: tuple[int, ...]


def check(
    flush: Callable[[], None], values: list[Value], inputs: list[Any], sig: Signature
) -> None:
    """Compute the results of an op; NonFiniteError when it made a NaN or an infinity."""
    flush()
    if not sig.inputs:
        return
    for value in values:
        found = _found(value)
        if found is None:
            continue
        held = _operands(inputs)
        meant = held is not None or not _finite(sig.attributes.values())
        if found.nans or not (meant or config.nans == NANS_ALONE):
            raise _error(value, found, held, sig)


def _error(value: Value, found: Found, held: Found | None, sig: Signature) -> NonFiniteError:
    kind = "NaN" if found.nans else "an infinity"
    count = found.nans or found.infinities
    if held is None:
        origin = "and its operands are finite"
    elif held.nans:
        origin = "and an operand holds NaN, which no op made: it is data, or a constant"
    else:
        origin = "and an operand holds an infinity"
    at = f"{count} of {found.size} elements, the first at {found.first}"
    error = NonFiniteError(
        f"{sig.op.name} made {kind} in {value.spec} ({at}), {origin}",
        op=sig.op.name,
        line=user_line(),
    )
    error.module = path_of(local.modules)
    return error


def _operands(inputs: Iterable[Any]) -> Found | None:
    """Return what the operands hold that is not finite; NaN first."""
    every = [_found(x) if isinstance(x, Value) else _of(np.asarray(x)) for x in inputs]
    found = [x for x in every if x is not None]
    return max(found, key=lambda x: x.nans, default=None)


def _found(value: Value) -> Found | None:
    if value.buffer is None or not value.spec.dtype.is_inexact:
        return None
    device = value.device
    return _of(device.backend.download(device.index, value.buffer, value.spec))


def _of(array: Any) -> Found | None:
    if array.dtype.kind in "iub?":
        return None
    # Small floats of other libraries have no such functions.
    wide = array if array.dtype.kind in "fc" else array.astype(np.float32)
    wrong = ~np.isfinite(wide)
    if not wrong.any():
        return None
    nans = np.isnan(wide)
    first = np.argwhere(nans if nans.any() else wrong)[0]
    count = int(nans.sum())
    return Found(count, int(wrong.sum()) - count, array.size, tuple(map(int, first)))


def _finite(attributes: Iterable[Any]) -> bool:
    """Return whether the numbers among attributes are finite."""
    numbers = [x.number if isinstance(x, Scalar) else x for x in attributes]
    return all(np.isfinite(x) for x in numbers if isinstance(x, float | complex))
