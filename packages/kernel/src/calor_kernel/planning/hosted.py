"""Factorizations of matrices, which the host computes where it reads the device's memory.

Requirements: NumPy's LAPACK takes whole matrices, with a reference row as its meaning. A matrix
without a result gives NaN, as the decomposition does on other devices; the reference of a row knows
what there is of it, such as the first columns of a Cholesky factor. Small matrices of a large batch
stay on the device, whose kernels take a step of all matrices at once. So do all matrices of which a
processor's kernels have the factors, which are faster than those of OpenBLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any, Final

import numpy as np

from calor.dtypes import float32, float64
from calor.errors import LinearAlgebraError
from calor.graph.graph import Graph, Node
from calor.specs import Spec
from calor_kernel.planning.blas_threads import one_thread
from calor_kernel.planning.engine import Engine

# Rows whose decomposition goes through a matrix once for each of its columns, or more often.
FACTORS: Final = frozenset(
    ("cholesky", "cholesky_or_nan", "det", "eig", "eigh", "inv", "lu", "qr", "slogdet", "solve",
     "svd", "triangular_solve")
)  # fmt: skip
# The order from which on the host takes matrices of any batch, and of a few matrices.
_LARGE: Final = 16
_LEAST: Final = 4
_FEW: Final = 64
# The order from which on the library's own threads may take part.
_THREADED: Final = 512
# The factors by which rows are computed where they are not those of the row's name.
_BY: Final = {
    **dict.fromkeys(("det", "inv", "slogdet", "solve"), "lu"), "cholesky_or_nan": "cholesky",
}  # fmt: skip
# Rows of which devices with cubes of one unit have kernels that are made for them.
_UNIT_KERNELS: Final = frozenset(("cholesky", "lu", "triangular_solve"))
Array = np.ndarray[Any, Any]


def on_host(engine: Engine, graph: Graph, node: Node) -> bool:
    """Return whether the host computes a node.

    Parameters
    ----------
    engine : Engine
        The device.
    graph : Graph
        A graph.
    node : Node
        A node of it.
    """
    if node.op.name not in FACTORS or not engine.host_memory or node.op.reference is None:
        return False
    if not graph.host.isdisjoint(node.inputs):
        return False
    if _has_kernels(engine, graph, node):
        return False
    *lead, m, n = graph.specs[node.inputs[0]].shape
    order = min(m, n)
    return order >= _LARGE or (order >= _LEAST and prod(lead) <= _FEW)


def _has_kernels(engine: Engine, graph: Graph, node: Node) -> bool:
    """Return whether a processor's kernels factorize the matrices of a node."""
    info, x = engine.device.info, graph.specs[node.inputs[0]]
    name = _BY.get(node.op.name, node.op.name)
    known = x.dtype in (float32, float64) and x.dtype in info.dtypes
    return name in _UNIT_KERNELS and info.max_units == 1 and known


def with_factors(engine: Engine, graph: Graph) -> bool:
    """Return whether the host may take part in a graph, at some size, or in its sub-graphs.

    Parameters
    ----------
    engine : Engine
        The device.
    graph : Graph
        A graph.
    """
    return engine.host_memory and _named(engine, graph)


def _named(engine: Engine, graph: Graph) -> bool:
    return any(
        (node.op.name in FACTORS and not _has_kernels(engine, graph, node))
        or any(isinstance(a, Graph) and _named(engine, a) for a in node.attributes.values())
        for node in graph.nodes
    )


class Factoring:
    """A node that the host computes, as a function of arrays.

    Parameters
    ----------
    node : Node
        The node.
    results : sequence of Spec
        Its results.
    """

    def __init__(self, node: Node, results: Sequence[Spec]) -> None:
        assert node.op.reference is not None
        self._function = node.op.reference
        self._attributes = node.attributes
        self._results = results

    def __call__(self, *operands: Array) -> list[Array]:
        """Return the results.

        Parameters
        ----------
        *operands : numpy.ndarray
            The operands; axes before the last two are a batch.

        Returns
        -------
        list of numpy.ndarray
            The results; NaN for a matrix without one.
        """
        small = min(operands[0].shape[-2:]) < _THREADED
        with one_thread() if small else nullcontext():
            return self._each(operands)

    def _each(self, operands: Sequence[Array]) -> list[Array]:
        """Return the results of all matrices, also where some have none."""
        try:
            return self._computed(operands)
        except (LinearAlgebraError, np.linalg.LinAlgError):
            pass
        made = [np.full(s.shape, np.nan, s.dtype.numpy) for s in self._results]
        for place in np.ndindex(operands[0].shape[:-2]):
            try:
                found = self._computed([x[place] for x in operands])
            except (LinearAlgebraError, np.linalg.LinAlgError):
                continue
            for whole, one in zip(made, found, strict=True):
                whole[place] = one
        return made

    def _computed(self, operands: Sequence[Array]) -> list[Array]:
        made = self._function(*operands, **self._attributes)
        results = made if isinstance(made, tuple) else (made,)
        return [np.ascontiguousarray(x) for x in results]
