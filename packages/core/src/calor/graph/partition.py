"""Cutting a graph between what a device takes and the rest.

Core owns the partitioner. A graph that the device claims whole is compiled whole. Kept composites
that it does not take are replaced by their decomposition, level by level, so that it may take what
they are made of; what remains unclaimed is an error that names every op with the device's reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.backends.protocol import Executable
from calor.errors import UnsupportedError
from calor.graph.decompose import decompose
from calor.graph.graph import Graph

if TYPE_CHECKING:
    from calor.backends.device import Device


def compile_graph(device: Device, graph: Graph) -> Executable:
    """Compile a graph for a device; UnsupportedError when an op cannot run there."""
    backend, index = device.backend, device.index
    claim = backend.claim(index, graph)
    while claim.reasons:
        smaller = decompose(graph, frozenset(claim.reasons))
        if smaller is graph:
            break
        graph = smaller
        claim = backend.claim(index, graph)
    if claim.reasons:
        lines = {
            f"{graph.nodes[i].op.name}: {reason}" for i, reason in sorted(claim.reasons.items())
        }
        raise UnsupportedError(
            f"{device.name} does not take {len(claim.reasons)} of {len(graph.nodes)} ops "
            f"({'; '.join(sorted(lines))}); choose a companion with "
            f'device "router:{device.backend.name},numpy"'
        )
    return backend.compile(index, graph)
