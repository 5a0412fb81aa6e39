"""Kept composites: a composite that a device runs whole equals its decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import calor
from calor.backends.device import Device
from calor.compiling.partition import compile_graph
from calor.dtypes import DType
from calor.graph.decompose import decompose
from calor.graph.graph import Graph
from calor.ops.base import TABLE

from ..rows.judging import judge, put
from ..rows.language import Case, covering
from .base import Array, Check, Place
from .rows import row_check

CONTRACT = (
    "{op} taken whole and its decomposition are one function; the decomposition differs here in "
    "{dtype}, so one of its ops does"
)


def composites(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of the decomposition of each kept composite, op by op on the device."""
    kept = {name for name, op in TABLE.items() if op.decompose is not None}
    for c, dtype in covering(cases, False):
        if c.op in kept and isinstance(c.operation, str):
            yield _check(c, dtype)


def _check(c: Case, dtype: DType) -> Check:
    def run(place: Place) -> None:
        arrays = c.draw(dtype, place.seed)
        graph = calor.trace(lambda *given: c.call(*given, dtype=dtype), *put(arrays))
        smaller = decompose(graph)
        assert smaller.output_specs == graph.output_specs
        with np.errstate(all="ignore"):
            judge(c, dtype, arrays, computed(place.device, smaller, arrays), place.flushes)

    return row_check("composites", c, dtype, "full", (run, None), contract=CONTRACT)


def computed(device: Device, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Compile a graph for a device, run it on host arrays, and return its outputs."""
    backend, index = device.backend, device.index
    executable = compile_graph(device, graph)
    buffers = [backend.upload(index, np.array(a, order="C", ndmin=a.ndim)) for a in arrays]
    made = executable(buffers)
    pairs = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(index, buffer, known)) for buffer, known in pairs]
