"""The rules of the backend protocol as data, and the checks that need no device."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from calor.backends.protocol import Backend, Buffer, Claim, Info
from calor.errors import ProtocolError
from calor.graph.graph import Graph
from calor.specs import Spec

# Contents of larger buffers are not compared, which would take too long.
DIGEST_LIMIT: Final = 1 << 16

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "adopted": "a buffer that shares host memory counts as exported",
        "claim": "a claim splits all nodes into parts that info allows, and refusals with reasons",
        "closed": "nothing is used after close",
        "contents": "contents change only by an executable that was given the buffer to write",
        "copy": "copy makes a buffer of the same contents",
        "download": "download returns a contiguous array of the spec, read-only when it is a view",
        "enumerate": "enumerate returns how many devices there are, and never raises",
        "exported": "a buffer counts as exported while a view of it lives outside",
        "feature": "what info declares full works",
        "foreign": "a buffer is used by the backend and device that made it",
        "fresh": "a new buffer shares memory with no other",
        "host": "core hands over contiguous host arrays of calor's dtypes",
        "index": "a call names a device below enumerate()",
        "info": "info describes the device in the protocol's own terms",
        "inputs": "an executable gets a buffer, or a host number where the graph says so, for each "
        "input of its graph",
        "intact": "running out of memory leaves buffers as they were",
        "into": "an output is written in place only into an own buffer of its size that nothing "
        "outside can see",
        "memory": "memory figures count what is held",
        "outputs": "an executable returns one buffer of the right size for each output",
        "required": "a call allocates at most required_bytes",
        "returned": "the buffer given for an output is the one returned for it",
        "serialize": "serialize returns bytes",
        "size": "a buffer's nbytes is the size of its spec",
        "snapshot": "upload copies: the host array may change afterwards",
        "spec": "a buffer is read as what it was made",
        "whole": "compile is asked for graphs that claim takes whole",
    }
)


def require(holds: bool, backend: str, rule: str, detail: str) -> None:
    """Raise ProtocolError with backend, rule and detail unless the rule holds."""
    if not holds:
        raise ProtocolError(
            f"{backend} breaks rule {rule!r}: {RULES[rule]}; here: {detail}", rule=rule
        )


class StrictBuffer:
    """A buffer of the inner backend with its recorded properties."""

    __slots__ = ("__weakref__", "backend", "digest", "index", "inner", "nbytes", "shared", "spec")

    def __init__(self, backend: Backend, index: int, inner: Buffer, spec: Spec) -> None:
        self.backend: Final = backend
        self.index: Final = index
        self.inner: Final = inner
        self.spec = spec
        self.nbytes = spec.nbytes
        # Checksum of a small buffer's contents; None for a large one.
        self.digest: int | None = None
        # Whether code outside of calor may write to the memory.
        self.shared = False

    @property
    def exported(self) -> bool:
        """The inner buffer's answer."""
        exported = self.inner.exported
        require(
            type(exported) is bool, self.backend.name, "exported", f"it is {exported!r}, no bool"
        )
        return exported


def digest(array: np.ndarray[Any, Any]) -> int:
    """Return a checksum of the elements."""
    return zlib.crc32(array.tobytes())


def overlaps(arrays: list[np.ndarray[Any, Any]]) -> tuple[int, int] | None:
    """Return the positions of two arrays that share memory, or None."""
    spans = sorted(
        (a.__array_interface__["data"][0], a.nbytes, i) for i, a in enumerate(arrays) if a.nbytes
    )
    for (start, size, i), (following, _, j) in pairwise(spans):
        if start + size > following:
            return (min(i, j), max(i, j))
    return None


def claim_faults(graph: Graph, claim: Any, info: Info) -> Iterator[str]:
    """Yield the faults of a claim."""
    if not isinstance(claim, Claim):
        yield f"it is a {type(claim).__name__}"
        return
    taken = [i for part in claim.parts for i in part]
    if len(set(taken)) != len(taken):
        yield f"a node is in two parts of {claim.parts}"
    if not all(claim.parts):
        yield "a part is empty"
    listed = set(taken) | set(claim.reasons)
    if listed != set(range(len(graph.nodes))) or set(taken) & set(claim.reasons):
        yield f"of {len(graph.nodes)} nodes, {claim.parts} are taken and {claim.reasons} are not"
        return
    for i, reason in claim.reasons.items():
        if not reason:
            yield f"node {i}, {graph.nodes[i].op.name}, is refused without a reason"
    for i, why in info.objections(graph).items():
        if i not in claim.reasons:
            yield f"node {i}, {graph.nodes[i].op.name}, is taken, but info says {why}"
