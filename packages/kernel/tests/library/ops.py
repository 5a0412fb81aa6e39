"""Running one op through a kernel backend, beside the reference of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calor.dtypes import ALL
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec

Array = np.ndarray[Any, Any]
_DTYPES = {t.numpy: t for t in ALL}


def run_op(
    backend: Any,
    op: str,
    arrays: Sequence[Array],
    attributes: Mapping[str, Any],
    axes: Sequence[tuple[int, ...] | None] = (),
) -> tuple[list[Array], list[Array]]:
    """Return what a backend and the reference make of an op.

    ``axes``: permutations through which the operands are seen, so that they come with strides.
    """
    row = table()[op]
    builder = Builder()
    specs = [spec(a.shape, _DTYPES[a.dtype]) for a in arrays]
    numbers = [builder.input(s) for s in specs]
    seen = list(arrays)
    for i, order in enumerate(axes):
        if order is not None:
            (numbers[i],) = builder.add(table()["permute"], [numbers[i]], {"axes": order})
            seen[i] = arrays[i].transpose(order)
    outputs = builder.add(row, numbers, attributes)
    graph = builder.build(outputs)
    claim = backend.claim(0, graph)
    assert not claim.reasons, claim.reasons
    executable = backend.compile(0, graph)
    buffers = [backend.upload(0, np.ascontiguousarray(a)) for a in arrays]
    made = executable(buffers)
    found = [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]
    assert row.reference is not None
    with np.errstate(all="ignore"):
        wanted = row.reference(*seen, **attributes)
    return found, list(wanted) if isinstance(wanted, tuple) else [np.asarray(wanted)]
