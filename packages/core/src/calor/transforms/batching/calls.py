"""Calling a function once for all elements of a mapped axis: tracing it, and batching the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor import tree
from calor.errors import TraceError
from calor.recording.records import alive
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle
from calor.transforms.batching.graphs import Batching, Item, Kind
from calor.transforms.bodies import Body, state, store


def call(
    batching: Batching, function: Callable[..., Any], items: Sequence[Item]
) -> tuple[tree.TreeDef, list[Item]]:
    """Call a function with one tensor for each item; return its structure and its leaves.

    What it changes outside is stored, if it does not depend on the mapped axis.

    Raises
    ------
    TraceError
        If it changes a tensor from outside by values that differ along the mapped axis.
    """

    def traced(_: Any, placeholders: list[Any]) -> Any:
        result = function(*placeholders)
        for leaf in tree.leaves(result):
            _check(batching.name, leaf)
        return result

    specs = [x.spec for x in items]
    body = Body(function, batching.name, specs, traced, batching.device)
    drawn = {id(t) for t in body.drawn} if batching.randomness != "same" else set()
    held = dict(zip(map(id, body.written), state(batching.name, body.written), strict=True))
    captures = [
        Item(held.get(id(t), t), Kind.STREAM if id(t) in drawn else Kind.SAME)
        for t in _live(body.captures)
    ]
    with batching.device:
        made = batching.run(body.graph, [*items, *captures])
    left = made[body.results :]
    for tensor, item in zip(body.written, left, strict=True):
        if item.kind is Kind.MAPPED:
            raise TraceError(_differs(batching.name, id(tensor) in drawn, tensor._value.spec))
    store(body.written, [x.tensor for x in left], [True] * len(left))
    return body.structure, made[: body.results]


def _live(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors without records through which no gradient can be asked for any more.

    Such are the values that a finished `calor.linearize` or `calor.vjp` keeps.
    """
    kept = alive(t._record for t in tensors)
    dead = [t._record is not None and id(t._record) not in kept for t in tensors]
    return [wrap(t._value) if d else t for t, d in zip(tensors, dead, strict=True)]


def _check(name: str, leaf: Any) -> None:
    if not isinstance(leaf, Handle | bool | int | float | complex) and not hasattr(
        leaf, "__array__"
    ):
        raise TraceError(
            f"{name} returns a {type(leaf).__name__}; return tensors, numbers and pytrees of them"
        )


def _differs(name: str, drawn: bool, spec: Any) -> str:
    if drawn:
        return (
            f"{name} draws random numbers in a branch or loop that depends on mapped values, so "
            f"the generator would go on differently for each element; draw before it, or use keys: "
            f"calor.random.split(key, size)"
        )
    return (
        f"{name} changes a tensor from outside ({spec}) in place, by values that differ along the "
        f"mapped axis; pass the tensor as a mapped argument, or return the new value"
    )
