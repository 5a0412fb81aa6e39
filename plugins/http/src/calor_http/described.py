"""Descriptions of devices and claims as messages."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import calor
from calor.backends.events import Event
from calor.backends.protocol import FEATURES, Claim, Info, State, impossible
from calor.dtypes import as_dtype
from calor.graph.graph import Graph, Node

_AWAY: Final = impossible("the memory is that of another machine; x.numpy() copies it")
_HERE: Final = {
    "host_views": _AWAY,
    "dlpack": _AWAY,
    "fork": impossible("a connection has one process at its end; open the device in the child"),
    "collectives": impossible("core copies between devices of a server"),
}


def _state(state: State) -> list[str]:
    return [state.level, state.reason]


def encode_info(info: Info) -> dict[str, Any]:
    """Return what a device can do as a message."""
    return {
        "description": info.description,
        "release": calor.__version__,
        "dtypes": {dtype.name: _state(state) for dtype, state in info.dtypes.items()},
        "features": {name: _state(state) for name, state in info.features.items()},
        "ops": [
            [*((key, "") if isinstance(key, str) else (key[0], key[1].name)), *_state(state)]
            for key, state in info.ops.items()
        ],
        "limits": dict(info.limits),
        "flushes": [dtype.name for dtype in info.flushes],
    }


def decode_info(name: str, data: Any) -> Info:
    """Return what a device of a server can do, seen from here."""
    features = {n: State(*state) for n, state in data["features"].items() if n in FEATURES}
    features.update(_HERE)
    # What a client may hold is counted per client; what is stored is the graph.
    features.update(memory_limit=State("full"), serialize=State("full"))
    ops: dict[Any, State] = {
        (op, as_dtype(dtype)) if dtype else op: State(level, reason)
        for op, dtype, level, reason in data["ops"]
    }
    callback = impossible("a function of this process cannot be called on another machine")
    ops.update(callback=callback, ordered_callback=callback)
    return Info(
        description=f"{data['description']}, by calor {data.get('release', 'unknown')} at {name}",
        dtypes={as_dtype(dtype): State(*state) for dtype, state in data["dtypes"].items()},
        features=features,
        ops=ops,
        limits={str(n): int(limit) for n, limit in data["limits"].items()},
        flushes=frozenset(map(as_dtype, data["flushes"])),
    )


def encode_event(event: Event) -> list[Any]:
    """Return an event of a profile as a message."""
    return [
        event.op, event.blueprint, event.start, event.seconds, event.nbytes, event.flops,
        list(event.cubes), list(event.covers), list(event.results), event.least,
    ]  # fmt: skip


def decode_event(data: Any) -> Event:
    """Return the event of a message."""
    op, blueprint, start, seconds, nbytes, flops, cubes, covers, results, least = data
    x, y, z = map(int, cubes)
    return Event(
        str(op),
        str(blueprint),
        float(start),
        float(seconds),
        int(nbytes),
        int(flops),
        (x, y, z),
        tuple(map(str, covers)),
        tuple(map(str, results)),
        float(least),
    )


def digest_of(data: bytes) -> str:
    """Return the name of a graph: the SHA-256 of its file form, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def largest_op(graph: Graph) -> str | None:
    """Return the op with the most bytes of results, which is to blame where memory runs out."""

    def size(node: Node) -> int:
        return sum(graph.specs[v].nbytes for v in node.outputs)

    return max(graph.nodes, key=size).op.name if graph.nodes else None


def encode_claim(claim: Claim) -> list[Any]:
    """Return a claim as a message."""
    return [[list(part) for part in claim.parts], dict(claim.reasons)]


def decode_claim(data: Any) -> Claim:
    """Return the claim of a message."""
    parts, reasons = data
    return Claim(tuple(map(tuple, parts)), {int(i): str(why) for i, why in reasons.items()})
