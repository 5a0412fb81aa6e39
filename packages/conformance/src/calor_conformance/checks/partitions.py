"""Programs of which the device takes a part, and the host's device the rest.

What a device lacks depends on the device, so ops are taken away from it: the parts of a program are
then cut, its values are moved between devices, and freed where nothing reads them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import calor
from calor.backends.device import Device
from calor.backends.protocol import Claim
from calor.compiling.partition import compile_graph
from calor.dtypes import float32
from calor.graph.graph import Graph
from calor.plugins.discovery import get_device

from ..rows.crossed.programs import program
from .base import Array, Place
from .contract import Contracts

contract = Contracts("graphs")
_PROGRAMS, _OPS, _WAYS = 4, 14, 2
# What is returned after the results.
_REPEATED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "a result again": lambda made, given: made[0],
    "an operand": lambda made, given: given[0],
}


class _Without:
    """A backend that refuses some ops, and otherwise is another one."""

    def __init__(self, inner: Any, refused: frozenset[str]) -> None:
        self.inner, self.refused = inner, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def claim(self, index: int, graph: Graph) -> Claim:
        """Return what the other backend takes, without the ops."""
        found = self.inner.claim(index, graph)
        reasons = dict(found.reasons)
        for number, node in enumerate(graph.nodes):
            if node.op.name in self.refused:
                reasons[number] = "it is taken away"
        parts = (tuple(i for i in part if i not in reasons) for part in found.parts)
        return Claim(tuple(part for part in parts if part), reasons)


@contract("a program is the same in parts, of which some run on another device",
          tier="full", dtypes=(float32,), looks=False)  # fmt: skip
def parts_beside_another_device(place: Place) -> None:
    for number in range(_PROGRAMS):
        made = program(place.number(number), _OPS, float32, "closed")
        arrays = [a.astype(np.float32) for a in made.operands]
        want, run = made.meaning(*arrays), made.run

        for name, more in _REPEATED.items():

            def repeated(*given: Any, run: Any = run, more: Any = more) -> list[Any]:
                made = run(*given)
                return [*made, more(made, given)]

            graph = calor.trace(repeated, *map(calor.asarray, arrays))
            names = sorted({node.op.name for node in graph.nodes})
            rng = np.random.default_rng([place.seed, number, len(name)])
            for _ in range(_WAYS):
                refused = frozenset(rng.permutation(names)[: rng.integers(1, len(names))].tolist())
                what = f"program {number} and {name}, without {', '.join(sorted(refused))}"
                _in_parts(place, graph, refused, arrays, [*want, more(want, arrays)], what)


def _in_parts(
    place: Place,
    graph: Graph,
    refused: frozenset[str],
    arrays: Sequence[Array],
    wants: Sequence[Array],
    what: str,
) -> None:
    backend, index = place.plain.backend, place.plain.index
    without: Any = _Without(backend, refused)
    executable = compile_graph(Device(without, index), graph, [get_device("numpy")])
    inputs = [backend.upload(index, a) for a in arrays]
    made = executable(inputs)
    # What a later call computes is not written over what this one returned.
    executable([backend.upload(index, a * 0) for a in arrays])
    apart = {id(buffer) for buffer in (*made, *inputs)}
    assert len(apart) == len(made) + len(inputs), f"{what}: one buffer is returned for two values"
    specs = [*graph.output_specs, *(graph.specs[v] for v in graph.inputs)]
    values = zip((*made, *inputs), (*wants, *arrays), specs, strict=True)
    for k, (buffer, want, known) in enumerate(values):
        got = np.asarray(backend.download(index, buffer, known))
        assert (got == want).all(), f"{what}: value {k} of {len(specs)} is {got}, not {want}"


CHECKS = contract.checks
