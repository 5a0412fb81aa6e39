"""Functions traced for sub-graphs, and the state from outside that they change.

Requirements: a body may write to a tensor from outside in place: a random generator's counter, the
statistics of a norm. A sub-graph has no side effects, so the value that a body leaves in such a
tensor is one more output of its graph, after those of the function; the op that owns the graph
hands it on from step to step, and the tensor has the last one when the op is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from calor import tree
from calor.errors import GradientError, TraceError
from calor.graph.graph import Builder, Graph
from calor.local import local
from calor.recording.records import Custom, Leaf, Projection, untracked
from calor.recording.tracing import GraphTrace
from calor.recording.writes import write
from calor.specs import Spec
from calor.tensor.tensor import wrap
from calor.tensor.values import Value
from calor.transforms.arguments import as_tensors


class Body:
    """A function traced for a sub-graph.

    Inputs of ``graph`` are those of the given specs, then ``captures``; outputs are ``results``
    leaves of the function's result, which has ``structure``, then the values left in ``written``,
    which are among the captures. ``drawn`` are the counters of random generators that it drew from.
    With ``read_only``, an advice, a write is a TraceError.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        specs: Sequence[Spec],
        call: Any,
        device: Any,
        read_only: str | None = None,
    ) -> None:
        with GraphTrace(device, name, inner=True, read_only=read_only) as trace, untracked():
            placeholders = [trace.placeholder(s) for s in specs]
            result = call(function, placeholders)
            leaves, self.structure = tree.flatten(result)
            outputs = as_tensors(leaves, device)
            self.results = len(outputs)
            self.written = [c.handle for c in trace.captures.values() if c.written]
            outputs += [wrap(t._value) for t in self.written]
            self.graph: Graph = trace.graph(outputs)
            self.count = len(specs)
            given = trace.inputs[self.count :]
            self.drawn = trace.drawn
        self.captures = [wrap(x) if type(x) is Value else x for x in given]
        for t in self.written:
            if t._value.spec.weak:
                raise TraceError(
                    f"{name} changes a Python number of the function around it in place; make it "
                    f"a tensor of a dtype first: calor.asarray(number, dtype=...)"
                )

    def arranged(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        """Return the graph with its inputs and outputs in another order.

        Each is the place of one of the function's own, or a tensor from outside: as an output, the
        value that is left in it.
        """
        order = [*range(self.count), *map(_key, self.captures)]
        wanted = [x if type(x) is int else _key(x) for x in inputs]
        returned = [x if type(x) is int else _key(x) for x in outputs]
        if wanted == order and returned == [*range(len(self.graph.outputs))]:
            return self.graph
        builder = Builder()
        specs = {k: self.graph.specs[i] for i, k in enumerate(order)}
        specs.update((_key(x), x._value.spec) for x in inputs if type(x) is not int)
        numbers = {k: builder.input(specs[k]) for k in wanted}
        made = builder.inline(self.graph, [numbers[k] for k in order])
        left: dict[Any, int] = dict(zip(map(_key, self.written), made[self.results :], strict=True))
        return builder.build(
            [made[k] if type(k) is int else left.get(k, numbers[k]) for k in returned]
        )


def _key(tensor: Any) -> tuple[int]:
    """Return what stands for a tensor among places: a tuple is none."""
    return (id(tensor),)


def without(tensors: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return the tensors that are not among the others."""
    out = {id(t) for t in others}
    return [t for t in tensors if id(t) not in out]


def union(*parts: Iterable[Any]) -> list[Any]:
    """Return the tensors of all parts, each once, in order."""
    return list({id(t): t for part in parts for t in part}.values())


def recorded(tensors: Iterable[Any]) -> bool:
    """Return whether an op on these tensors gets a gradient record."""
    return local.grad_enabled and any(t._record is not None for t in tensors)


def state(name: str, written: Iterable[Any]) -> list[Any]:
    """Return tensors that a body changes, as operands of its op.

    A leaf stays a leaf when it is changed, so later steps would add to its gradient too, which a
    value handed from step to step cannot; a gradient that arrives there is an error.
    """
    return [_leaf_state(name, t) if type(t._record) is Leaf else t for t in written]


def _leaf_state(name: str, tensor: Any) -> Any:
    def pull(gs: list[Any]) -> list[Any]:
        raise GradientError(
            f"{name} changes a tensor that requires gradients in place, so there is no gradient "
            f"through it; take the gradient inside it with calor.value_and_grad, or hand the "
            f"tensor on as a carry"
        )

    if local.jit:
        local.jit[-1].touch(tensor)
    return wrap(tensor._value, Projection(Custom((tensor._record,), pull, 1), 0))


def store(written: Sequence[Any], values: Sequence[Any], flags: Sequence[bool]) -> None:
    """Give tensors that bodies changed their last values; one without a flag has no gradient."""
    for tensor, value, flag in zip(written, values, flags, strict=True):
        write(tensor, value if flag else wrap(value._value))
