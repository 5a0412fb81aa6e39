"""Chains of elementwise ops as one launch: their lowering, and the fuser that finds them.

Requirements: a chain gives the bits of its single ops, so that fusion is optional. Movement between
the ops costs nothing: it is pushed to the operands and changes their views. A value that other
nodes read too is written beside the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import permuted
from calor_kernel.contract.work import (
    Argument,
    Candidates,
    Input,
    Output,
    Refusal,
    Request,
    Work,
    lowering,
)
from calor_kernel.library.elementwise.chain_search import CHAIN, ChainSearch
from calor_kernel.library.elementwise.joined_results import with_joins
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.paths import Path, along, in_place
from calor_kernel.library.elementwise.random_chains import with_bits
from calor_kernel.library.elementwise.siblings import joined
from calor_kernel.library.steps import redirected


@lowering(CHAIN, strided=True)
def lower_chain(request: Request) -> Sequence[Work] | Refusal:
    """Lower an ``expression`` of ``operands``: pairs of an input's index and a path.

    An attribute ``order`` says that the results have their axes in another order.
    """
    expression: Expression = request.attributes["expression"]
    operands: tuple[tuple[int, Path], ...] = request.attributes["operands"]
    views = []
    for number, path in operands:
        view = along(path, request.inputs[number])
        if view is None:
            return Refusal(f"operand {number} has no strides on its way")
        views.append(permuted(view, request.attributes.get("order", range(len(view.shape)))))
    found = lower_expression(expression, views, request.outputs, request.info)
    places: dict[Argument, Argument] = {Input(k): Input(n) for k, (n, _) in enumerate(operands)}
    places |= {Output(k): Output(k) for k in range(len(request.outputs))}
    launches = tuple(redirected(launch, places) for launch in found[0].launches)
    pairs = in_place(operands, views, request.outputs, request.info)
    return Candidates.of([replace(found[0], launches=launches, in_place=pairs)], found.dropped)


class ElementwiseFuser(Fuser):
    """Finds chains of elementwise ops and the movement between them."""

    name = "elementwise"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return disjoint chains, those of the last nodes first."""
        return self.among(graph, info, range(len(graph.nodes)))

    def among(
        self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]
    ) -> Iterable[Group]:
        """Return disjoint chains of free nodes, and several independent ones as one group."""
        search, chains = ChainSearch(graph, info, units), []
        taken = set(search.grouped)
        for chain in search.chains(taken):
            joined_chain = with_joins(search, chain)
            if joined_chain is not None:
                taken.update(joined_chain.nodes)
                yield joined_chain
                continue
            taken.update(chain.nodes)
            chains.append(search.group(chain))
            if len(chain.places) > 1:
                yield chains[-1]
            yield from with_bits(search, chains[-1], search.ceilings)
        yield from joined(search, chains, search.ceilings)
