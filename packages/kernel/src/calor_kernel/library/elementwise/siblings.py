"""Independent chains with one expression as one piece of work: horizontal fusion.

Requirements: siblings do not depend on each other, and have dense operands and single values only.
They run at the place of the last of them, so values that nodes between would have released are
limited in size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple

from calor.graph.graph import Node
from calor_kernel.contract.choices import hinted, spec_of
from calor_kernel.contract.cost import Ceilings, moved
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.work import (
    Argument,
    Candidates,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.elementwise.links import Links
from calor_kernel.library.elementwise.lower import lower_problem, problem_of
from calor_kernel.library.elementwise.many import Member, launch_many
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.paths import Move, Path, along, in_place, move_of
from calor_kernel.library.steps import redirected

SIBLINGS: Final = "elementwise_siblings"
# Bytes of values that wait for their siblings' nodes, and of those that wait where all results are
# results of the graph: gradients of weights before an update, which moves several times as many.
_WAITING: Final = 32 << 20
_GRADIENTS: Final = 64 << 20
# Bytes that all siblings move so that a launch alone costs more.
_FEW: Final = 1 << 20
_Operands = tuple[tuple[int, Path], ...]


@lowering(SIBLINGS, strided=True)
def lower_siblings(request: Request) -> Sequence[Work] | Refusal:
    """Lower an ``expression`` for each of ``members``: its operands, and numbers of its results.

    Operands are pairs of an input's number and a path. A member whose operands are not flat here
    gets a launch of its own.
    """
    expression: Expression = request.attributes["expression"]
    members: tuple[tuple[_Operands, tuple[int, ...]], ...] = request.attributes["members"]
    readers = Counter(n for operands, _ in members for n, _ in operands)
    forms: dict[tuple[int, ...], list[_Viewed]] = {}
    small: list[_Viewed] = []
    alone: list[_Viewed] = []
    for operands, results in members:
        moved = [along(path, request.inputs[n]) for n, path in operands]
        views = [view for view in moved if view is not None]
        if len(views) < len(moved):
            return Refusal("an operand has no strides on its way")
        problem = problem_of(expression, views, [request.outputs[n] for n in results], request.info)
        viewed = _Viewed(Member(problem, tuple(n for n, _ in operands), results), operands)
        if problem.count == 1:
            small.append(viewed)
        elif problem.is_flat:
            forms.setdefault(tuple(s[0] for s in problem.strides), []).append(viewed)
        else:
            alone.append(viewed)
    # A single element is as dense as it is one value.
    if small:
        forms.setdefault(next(iter(forms), (1,) * len(expression.operands)), []).extend(small)
    launches: list[Launch] = []
    pairs: list[tuple[int, int]] = []
    for steps, form in forms.items():
        if len(form) > 1:
            launches += launch_many([one.member for one in form], steps, request.info)
            pairs += (pair for one in form for pair in one.in_place(steps))
        else:
            alone += form
    for one in alone:
        launches += _alone(one.member)
        pairs += one.in_place()
    return Candidates.of(
        [Work(tuple(launches), in_place=tuple((n, k) for n, k in pairs if readers[n] == 1))]
    )


class _Viewed(NamedTuple):
    """A member with its operands and their paths."""

    member: Member
    operands: _Operands

    def in_place(self, steps: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield the inputs that results may overwrite."""
        problem, targets = self.member.problem, self.member.targets
        views, outputs = problem.views, problem.outputs
        for n, k in in_place(self.operands, views, outputs, problem.info, steps):
            yield n, targets[k]


def _alone(member: Member) -> Iterator[Launch]:
    """Yield the launches of one member."""
    places: dict[Argument, Argument] = {Input(k): Input(n) for k, n in enumerate(member.sources)}
    places |= {Output(k): Output(n) for k, n in enumerate(member.targets)}
    for one in lower_problem(member.problem)[0].launches:
        yield redirected(one, places)


class _Read(NamedTuple):
    """An operand: a value with a path, and the memory that it is a part of with a path.

    ``one``: whether all elements read one element; None if there is only one element.
    """

    value: tuple[int, Path]
    base: tuple[int, Path]
    one: bool | None


class _Chain(NamedTuple):
    """A chain and its operands."""

    group: Group
    operands: tuple[_Read, ...]


def joined(links: Links, chains: Iterable[Group], ceilings: Ceilings) -> Iterator[Group]:
    """Yield groups of several chains each, which have one expression and are independent."""
    forms: dict[Expression, dict[tuple[bool | None, ...], list[_Chain]]] = {}
    for chain in chains:
        found = _read(links, chain)
        if found is not None:
            of_one = forms.setdefault(chain.attributes["expression"], {})
            form = tuple(read.one for read in found)
            of_one.setdefault(form, []).append(_Chain(chain, found))
    for of_one in forms.values():
        for form, alike in _with_small(of_one).items():
            for siblings in _independent(links, alike) if len(alike) > 1 else ():
                if len(siblings) > 1:
                    yield _group(links, form, siblings, ceilings)


def _with_small(
    forms: dict[tuple[bool | None, ...], list[_Chain]],
) -> dict[tuple[bool | None, ...], list[_Chain]]:
    """Return the chains by form; those of one element, which have any form, are in the first."""
    small = [form for form in forms if None in form]
    large = [form for form in forms if None not in form]
    if not small or not large:
        return forms
    first = [*forms[large[0]], *(chain for form in small for chain in forms[form])]
    return {form: forms[form] for form in large} | {large[0]: first}


def _read(links: Links, chain: Group) -> tuple[_Read, ...] | None:
    """Return a chain's operands, None if it stays alone: if one is not dense and has many values.

    Single values are read from the memory that they are a part of, since siblings often read parts
    of one array.
    """
    readers = (r for v in chain.outputs for r in links.readers.get(v, ()))
    if any(links.graph.nodes[r].op.name == "barrier" for r in readers):
        # It is made late, so that it need not wait.
        return None
    shape = links.graph.specs[chain.outputs[0]].shape
    dense, found = row_major(shape), []
    axes = [k for k, n in enumerate(shape) if n != 1]
    for number, path in chain.attributes["operands"]:
        value = chain.inputs[number]
        base, way = _base(links, value, path)
        view = along(way, _held(links, base))
        if view is None:
            return None
        one = not any(view.strides[k] for k in axes)
        if not one and any(view.strides[k] != dense[k] for k in axes):
            return None
        found.append(_Read((value, path), (base, way), one if axes else None))
    return tuple(found)


def _base(links: Links, value: int, path: Path) -> tuple[int, Path]:
    """Return the memory that a value is a part of, and the path from there."""
    while value in links.maker:
        move = move_of(links.graph, links.maker[value])
        before = links.graph.nodes[links.maker[value]].inputs[:1]
        if move is None or move.result.dtype is not links.graph.specs[before[0]].dtype:
            break
        if along((move, *path), View.dense(links.graph.specs[before[0]])) is None:
            break
        value, path = before[0], (move, *path)
    return value, path


@dataclass(slots=True)
class _Siblings:
    """Chains so far, their nodes, and those that they depend on.

    ``waiting``: bytes that wait for siblings. ``until``: the first that is done of the last nodes
    that read their results.
    """

    chains: list[_Chain] = field(default_factory=list)
    nodes: int = 0
    above: int = 0
    waiting: int = 0
    until: float = inf


def _independent(links: Links, chains: Sequence[_Chain]) -> Iterator[list[_Chain]]:
    """Yield chains that do not depend on each other, in the order of their last nodes.

    Chains of results of the graph are in the order in which what they read is made.
    """

    def place(chain: _Chain) -> tuple[bool, int]:
        group = chain.group
        if not links.wanted.issuperset(group.outputs):
            return False, group.nodes[-1]
        return True, max((links.maker.get(read.base[0], -1) for read in chain.operands), default=-1)

    found = [_Siblings()]
    for chain in sorted(chains, key=place):
        group = chain.group
        nodes, above = links.bits(group.nodes), links.above(group.inputs)
        final = links.wanted.issuperset(group.outputs)
        most = _GRADIENTS if final else _WAITING
        # What is updated together is found together, as weights of a layer are.
        for one in found[-1:] if final else found:
            waiting = _waiting(links, group, one.until)
            apart = not (above & one.nodes or nodes & one.above)
            if apart and (not waiting or one.waiting + waiting <= most):
                break
        else:
            one, waiting = _Siblings(), waiting if final else 0
            found.append(one)
        one.chains.append(chain)
        one.nodes |= nodes
        one.above |= above
        one.waiting += waiting
        one.until = min(one.until, _until(links, group))
    for one in found:
        yield one.chains


def _until(links: Links, chain: Group) -> float:
    """Return the last node that reads a chain's results."""
    if not links.wanted.isdisjoint(chain.outputs):
        return inf
    return max((r for v in chain.outputs for r in links.readers.get(v, ())), default=inf)


def _waiting(links: Links, chain: Group, until: float) -> int:
    """Return the bytes of a chain's operands and results that wait for earlier siblings, or with.

    Results that would be in memory beside those of the siblings anyway do not count.
    """
    if links.wanted.issuperset(chain.outputs):
        # A view of few numbers has the size of the result, but not their memory.
        read = ((chain.inputs[k], path) for k, path in chain.attributes["operands"])
        values = {_base(links, v, path)[0] for v, path in read}
        return sum(hinted(links.graph.specs[v].nbytes) for v in values if not _is_given(links, v))
    values = {v for v in chain.inputs if v in links.maker}
    if chain.nodes[-1] > until:
        values.update(chain.outputs)
    return sum(hinted(links.graph.specs[v].nbytes) for v in values - links.wanted)


def _group(
    links: Links, form: tuple[bool | None, ...], chains: Sequence[_Chain], ceilings: Ceilings
) -> Group:
    graph = links.graph
    expression: Expression = chains[0].group.attributes["expression"]
    constants: dict[Any, int] = {}
    operands = [
        [
            _shared(links, constants, *read.base) if one else read.value
            for one, read in zip(form, c.operands, strict=True)
        ]
        for c in chains
    ]
    read = sorted({v for given in operands for v, _ in given})
    inputs = {v: k for k, v in enumerate(read)}
    outputs = [v for chain in chains for v in chain.group.outputs]
    results = {v: k for k, v in enumerate(outputs)}
    members = tuple(
        (
            tuple((inputs[v], path) for v, path in given),
            tuple(results[v] for v in chain.group.outputs),
        )
        for given, chain in zip(operands, chains, strict=True)
    )
    nodes = tuple(sorted(n for chain in chains for n in chain.group.nodes))
    flops = sum(graph.specs[c.group.outputs[0]].size for c in chains) * len(expression.steps)
    cost = ceilings.seconds(moved(graph, read, outputs), flops)
    attributes = {"expression": expression, "members": members}
    # Inner values are rather computed with what they come from or lead to. Few numbers of inputs
    # alone, such as the scales of norms in inference, come from nothing, and cost only a launch.
    few = moved(graph, read, outputs) <= _FEW and all(_is_given(links, v) for v in read)
    inner = not links.wanted.issuperset(outputs) and not few
    return Group(nodes, SIBLINGS, tuple(read), tuple(outputs), cost, attributes, spare=inner)


def _full(links: Links, value: int) -> Node | None:
    """Return the node of a constant that is one number, None for another value."""
    node = links.graph.nodes[links.maker[value]] if value in links.maker else None
    return node if node is not None and node.op.name == "full" else None


def _held(links: Links, value: int) -> View:
    """Return how a value is in memory: a constant of one number as a single element."""
    spec = links.graph.specs[value]
    if _full(links, value) is None:
        return View.dense(spec)
    return View(spec.shape, (0,) * spec.ndim, spec.dtype)


def _shared(links: Links, constants: dict[Any, int], value: int, path: Path) -> tuple[int, Path]:
    """Return where an operand of one element is read: equal constants of any shapes are one.

    ``constants``: those so far.
    """
    node, own = _full(links, value), links.graph.specs[value]
    if node is None:
        return value, path
    first = constants.setdefault(node.attributes["value"], value)
    if first == value:
        return value, path
    ndim = links.graph.specs[first].ndim
    ones, zeros = (1,) * ndim, (0,) * ndim
    moves = (
        Move("slice", (("starts", zeros), ("steps", ones)), spec_of(ones, own.dtype)),
        Move("reshape", (), spec_of((), own.dtype)),
        Move("expand", (), own),
    )
    return first, (*moves, *path)


def _is_given(links: Links, value: int) -> bool:
    """Return whether a value is an input of the graph or a constant."""
    return value not in links.maker or not links.graph.nodes[links.maker[value]].inputs
