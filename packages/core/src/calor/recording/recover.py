"""What happens when a plan fails: what can be computed is, and the rest knows why it is not.

Requirements: a failure is bound to the values that it concerns, so that the device stays usable and
live tensors survive; its error names the op and, under CALOR_DEBUG=1, the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.compiling.pending import compile_pending
from calor.config import config
from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError, ProtocolError
from calor.graph.graph import Builder
from calor.graph.op import Signature
from calor.recording.codes import INPUT, decode, walk
from calor.recording.nodes import Nodes
from calor.recording.poison import Poison, settle
from calor.recording.sites import locate
from calor.tensor.values import Value


def recover(trace: Nodes, live: Sequence[Value], inputs: Sequence[Any], error: Exception) -> None:
    """After a failed plan, compute its outputs one by one; those that fail alone are poisoned."""
    # A backend that breaks the protocol may only seem to succeed with one output, and a device that
    # is lost is asked no more: what it said at first names the op.
    alone = len(live) == 1 or isinstance(error, ProtocolError | DeviceLostError)
    settle(error)
    for value in live:
        if _renewed(value, error):
            continue
        failure = error
        if not alone:
            try:
                graph = decode(trace.codes, [value.position])
                value.buffer = compile_pending(trace.device, graph)(inputs)[0]
            except Exception as found:
                failure = found
                settle(found)
            else:
                value.trace = None
                continue
        if isinstance(failure, DeviceError) and failure.line is None:
            _locate(trace, value.position, inputs, failure)
        value.trace = Poison(failure)


def _locate(trace: Nodes, position: int, inputs: Sequence[Any], error: DeviceError) -> None:
    """Add to an error where the node at fault was recorded, as far as that is known."""
    sites = [s for s in trace.sites if s.position <= position and s.fits(error)]
    if len(sites) > 1:
        culprit = _first_to_fail(trace, _ancestors(trace.codes, position), inputs, position)
        sites = [s for s in sites if s.position == culprit] or sites
    locate(error, sites)
    if config.debug and error.line is None:
        error.line = _line(trace, position, inputs, error)


def _renewed(value: Value, error: Exception) -> bool:
    """Return whether a value is its device's token, which is made anew: it has no contents."""
    device = value.device
    if device.token is None or device.token._value is not value:
        return False
    if isinstance(error, DeviceLostError):
        return False
    value.buffer = device.backend.upload(device.index, np.zeros((), value.spec.dtype.numpy))
    value.trace = None
    return True


class _Recorded:
    """A node of the trace: its signature, its position and those of its operands."""

    __slots__ = ("operands", "position", "signature")

    def __init__(self, sig: Signature, position: int, operands: list[int]) -> None:
        self.signature = sig
        self.position = position
        self.operands = operands


def _line(trace: Nodes, position: int, inputs: Sequence[Any], error: DeviceError) -> str | None:
    """Return the line that recorded the node at fault, among those that a value depends on."""
    nodes = _ancestors(trace.codes, position)
    if isinstance(error, OutOfMemoryError):
        # The plan did not start, so no node failed: the largest of the named op is to blame.
        named = [n for n in nodes if n.signature.op.name == error.op]
        culprit = max(named, key=_size).position if named else position
    else:
        culprit = _first_to_fail(trace, nodes, inputs, position)
    # A line is kept for the last of the nodes that one call recorded.
    recorded = sorted(p for p in trace.lines if p >= culprit)
    return trace.lines[recorded[0]] if recorded else None


def _size(node: _Recorded) -> int:
    return sum(s.nbytes for s in node.signature.outputs)


def _ancestors(codes: Sequence[Any], position: int) -> list[_Recorded]:
    nodes: list[_Recorded] = []
    for sig, at, distances in walk(codes):
        if at > position:
            break
        nodes.append(_Recorded(sig, at, [at - d for d in distances]))
    needed = {position}
    kept: list[_Recorded] = []
    for node in reversed(nodes):
        made = range(node.position, node.position + len(node.signature.outputs))
        if node.signature.op is INPUT or needed.intersection(made):
            needed.update(node.operands)
            kept.append(node)
    return kept[::-1]


def _first_to_fail(
    trace: Nodes, nodes: Sequence[_Recorded], inputs: Sequence[Any], position: int
) -> int:
    """Run the nodes one by one, each as a graph of its own, and return where that stops."""
    given = iter(inputs)
    held: dict[int, Any] = {}
    hosts: set[int] = set()
    for node in nodes:
        sig = node.signature
        if sig.op is INPUT:
            held[node.position] = next(given)
            if sig.attributes["host"]:
                hosts.add(node.position)
            continue
        builder = Builder()
        numbers = [
            builder.input(s, p in hosts) for p, s in zip(node.operands, sig.inputs, strict=True)
        ]
        graph = builder.build(builder.add(sig.op, numbers, sig.attributes, sig.outputs))
        try:
            made = compile_pending(trace.device, graph)([held[p] for p in node.operands])
        except Exception:
            return node.position
        held.update(zip(range(node.position, node.position + len(made)), made, strict=True))
    return position
