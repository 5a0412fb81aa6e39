"""``backward()`` inside a jitted function, for tensors that are its arguments.

The placeholder of an argument has no gradient record, which keeps graphs small: most functions need
none. A function that calls ``backward`` or reads ``.grad`` with arguments that require gradients is
traced again, with records that end at the placeholders. A gradient that arrives there is a result
of the graph. After the call it is added to ``.grad`` of the caller's tensor; if the caller computed
the tensor from others, it flows on to these.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

from calor.recording.records import Custom, Leaf, Projection
from calor.tensor.tensor import wrap
from calor.tensor.values import Handle
from calor.transforms.grad import accumulate

# How a tensor takes a gradient: not at all, on the way to others, or in its own ``.grad``, which
# is present or not.
NO: Final = 0
PASSES: Final = 1
KEEPS: Final = 2
ADDS: Final = 3


def kinds(tensors: Sequence[Any]) -> list[int]:
    """Return how each tensor takes a gradient."""
    return [_kind(t) for t in tensors]


def _kind(tensor: Any) -> int:
    record = getattr(tensor, "_record", None)
    if record is None:
        return NO
    if type(record) is not Leaf or record.tensor is None or record.tensor() is not tensor:
        return PASSES
    return KEEPS if tensor._grad is None else ADDS


def present(tensors: Sequence[Any], how: Sequence[int]) -> list[Any]:
    """Return the existing gradients, which are inputs of the graph too."""
    return [t._grad for t, kind in zip(tensors, how, strict=True) if kind == ADDS]


class Sinks:
    """Placeholders of arguments with records, and the gradients that arrive there.

    ``grads`` are the placeholders of :func:`present`.
    """

    def __init__(
        self, stand_ins: Sequence[Any], how: Sequence[int], grads: Sequence[Handle]
    ) -> None:
        self.handles: list[Any] = []
        there = iter(grads)
        for tensor, kind in zip(stand_ins, how, strict=True):
            # A tensor on the way to others has no .grad itself, so another takes its gradient.
            sink = wrap(tensor._value) if kind == PASSES else tensor
            self.handles.append(sink)
            if kind == NO:
                continue
            leaf = Leaf(None, weakref.ref(sink))
            tensor._record = leaf
            if kind == PASSES:
                tensor._record = Projection(Custom((leaf,), list, 1, (tensor._value.spec,)), 0)
            elif kind == ADDS:
                tensor._grad = next(there)

    def writes(self, changed: Sequence[tuple[Handle, Any]]) -> list[tuple[int, Any]]:
        """Return (argument, gradient) of the changed gradients that belong to arguments."""
        places = {id(h): i for i, h in enumerate(self.handles)}
        return [(places[id(h)], g) for h, g in changed if id(h) in places]

    def others(self, changed: Sequence[tuple[Handle, Any]]) -> list[tuple[Handle, Any]]:
        """Return the changed gradients that belong to captured tensors."""
        ids = set(map(id, self.handles))
        return [(h, g) for h, g in changed if id(h) not in ids]


def store(tensors: Sequence[Any], writes: Sequence[tuple[int, Any]], kinds: Sequence[int]) -> None:
    """Assign gradients (argument, tensor or None) to arguments, or pass them to their sources."""
    for i, gradient in writes:
        if kinds[i] == PASSES:
            if gradient is not None:
                accumulate([(tensors[i]._record, gradient)], False)
        else:
            tensors[i]._grad = gradient
