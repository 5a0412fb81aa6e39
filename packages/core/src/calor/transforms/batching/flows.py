"""Batching control flow, and functions with gradients that users wrote.

A choice by a mapped predicate computes both branches and selects; a loop whose condition is mapped
runs until it holds for no element, and keeps the carry of those that are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor.graph.graph import Graph
from calor.ops import control
from calor.ops import elementwise as e
from calor.ops.gradient_rules import GradientRule, custom_gradient
from calor.ops.reductions import any_
from calor.ops.reductions import sum as sum_
from calor.transforms.batching.calls import call
from calor.transforms.batching.graphs import FLOWS, Batching, Item, Kind
from calor.transforms.batching.movement import moved, over
from calor.transforms.bodies import recorded
from calor.transforms.scan_saves import with_products


def _items(made: Any, kinds: Sequence[Kind]) -> list[Item]:
    made = made if isinstance(made, tuple) else (made,)
    return [Item(t, k) for t, k in zip(made, kinds, strict=False)]


def _select(predicate: Any, yes: Any, no: Any) -> Any:
    """Return, element by element of the mapped axis, one of two tensors."""
    return yes if yes is no else e.where(over(predicate, yes.shape), yes, no)


def _cond(batching: Batching, given: list[Item], *, then: Graph, otherwise: Graph) -> list[Item]:
    predicate, operands = given[0], given[1:]
    if predicate.kind is Kind.MAPPED:
        pairs = zip(batching.run(then, operands), batching.run(otherwise, operands), strict=True)
        return [
            a
            if a.tensor is b.tensor
            else Item(_select(predicate.tensor, batching.lead(a), batching.lead(b)), Kind.MAPPED)
            for a, b in pairs
        ]
    kinds = [x.kind for x in operands]
    first, second = batching.body(then, kinds)[1], batching.body(otherwise, kinds)[1]
    wanted = [max(pair) for pair in zip(first, second, strict=True)]
    made = control.cond(
        predicate.tensor,
        *(x.tensor for x in operands),
        then=batching.body(then, kinds, wanted)[0],
        otherwise=batching.body(otherwise, kinds, wanted)[0],
    )
    return _items(made, wanted)


def _settled(
    carry: Sequence[Kind], step: Callable[[list[Kind]], tuple[Any, list[Kind]]]
) -> tuple[Any, list[Kind], list[Kind]]:
    """Return a body batched for carries that keep their kinds, these, and those of its outputs."""
    now = list(carry)
    while True:
        graph, made = step(now)
        after = [max(pair) for pair in zip(now, made, strict=False)]
        if after == now:
            return graph, now, made
        now = after


def _while_loop(
    batching: Batching,
    given: list[Item],
    *,
    condition: Graph,
    body: Graph,
    captures: tuple[int, int],
) -> list[Item]:
    n, m = captures[0], sum(captures)
    first, second, carry = given[:n], given[n:m], given[m:]
    of_test, of_step = [x.kind for x in first], [x.kind for x in second]

    def step(kinds: list[Kind]) -> tuple[Graph, list[Kind]]:
        return batching.body(body, [*kinds, *of_step], kinds)

    graph, kinds, _ = _settled([x.kind for x in carry], step)
    test, outcome = batching.body(condition, [*kinds, *of_test])
    if outcome[0] is Kind.MAPPED:
        kinds = [Kind.MAPPED] * len(carry)
        own = *condition.input_specs[: len(carry)], *condition.input_specs[len(carry) :]
        count = len(carry)

        def unfinished(items: list[Item]) -> Any:
            return batching.lead(batching.run(condition, items)[0])

        def going(items: list[Item]) -> list[Any]:
            return [any_(unfinished(items), axes=(0,))]

        def selected(items: list[Item]) -> list[Any]:
            before, captured = items[:count], items[count : count + len(second)]
            go = unfinished([*before, *items[count + len(second) :]])
            after = batching.run(body, [*before, *captured])
            return [
                _select(go, batching.lead(a), b.tensor) for a, b in zip(after, before, strict=True)
            ]

        test = batching.traced(own, [*kinds, *of_test], going)
        specs = [*body.input_specs, *condition.input_specs[count:]]
        graph = batching.traced(specs, [*kinds, *of_step, *of_test], selected)
        second = [*second, *first]
    made = control.while_loop(
        *(x.tensor for x in (*first, *second)),
        *batching.mapped(carry, kinds),
        condition=test,
        body=graph,
        captures=(len(first), len(second)),
    )
    return _items(made, kinds)


def _scan(
    batching: Batching,
    given: list[Item],
    *,
    body: Graph,
    captures: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: bool,
) -> list[Item]:
    held, carry = given[:captures], given[captures : captures + carries]
    rows = given[captures + carries :]
    others = [x.kind for x in (*rows, *held)]

    def step(kinds: list[Kind]) -> tuple[Graph, list[Kind]]:
        return batching.body(body, [*kinds, *others], kinds)

    graph, kinds, made_kinds = _settled([x.kind for x in carry], step)
    operands = [
        *(x.tensor for x in held),
        *batching.mapped(carry, kinds),
        *(moved(x.tensor, 0, 1) if x.kind is Kind.MAPPED else x.tensor for x in rows),
    ]
    saves = not keep and recorded(operands)
    made = control.scan(
        *operands,
        body=with_products(graph, carries, captures) if saves else graph,
        captures=captures,
        carries=carries,
        length=length,
        reverse=reverse,
        keep=keep or saves,
    )
    made = made if isinstance(made, tuple) else (made,)
    # What was kept only now comes last, and no node of the function's graph reads it.
    stacked_kinds = [*made_kinds[carries:], *(kinds if keep else ())]
    stacked = [
        Item(moved(t, 1, 0) if k is Kind.MAPPED else t, k)
        for t, k in zip(made[carries:], stacked_kinds, strict=False)
    ]
    return [*_items(made[:carries], kinds), *stacked]


@dataclass(frozen=True)
class Batched:
    """A user's rule of a batched function; equal for equal rules and kinds.

    ``known``: the kinds of the tensors that the rule reads; ``given``: those of the arguments.
    """

    batching: tuple[str, int, str, Any]
    rule: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    known: tuple[Kind, ...]
    given: tuple[Kind, ...]

    def found(
        self, tensors: Sequence[Any], moving: Sequence[Any], kinds: Sequence[Kind]
    ) -> tuple[Batching, list[Item | None]]:
        """Return the rule's results for tensors and what moves; None where either has none."""
        batching = Batching(*self.batching)
        items = [Item(t, k) for t, k in zip(tensors, self.known, strict=True)]
        n, places = len(items), [i for i, t in enumerate(moving) if t is not None]
        items += [Item(moving[i], kinds[i]) for i in places]

        def run(*given: Any) -> list[Any]:
            put: list[Any] = [None] * len(moving)
            for i, t in zip(places, given[n:], strict=True):
                put[i] = t
            return self.rule(given[:n], put)

        structure, found = call(batching, run, items)
        parts = iter(found)
        return batching, [next(parts) if one.count else None for one in structure.children]


class BatchedPull(Batched):
    """A reverse rule: residuals and cotangents to gradients of the arguments."""

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        mapped = [Kind.MAPPED] * len(cotangents)
        batching, found = self.found(residuals, cotangents, mapped)
        return [
            None if x is None else _gradient(batching, x, k)
            for x, k in zip(found, self.given, strict=True)
        ]


class BatchedPush(Batched):
    """A forward rule: operands and their tangents to the tangents of the value."""

    def __call__(self, operands: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        batching, found = self.found(operands, tangents, self.given)
        return [None if x is None else batching.lead(x) for x in found]


def _gradient(batching: Batching, item: Item, kind: Kind) -> Any:
    """Return a gradient for an operand of a kind: one that is not mapped gets the sum."""
    whole = batching.lead(item)
    return whole if kind is Kind.MAPPED else sum_(whole, axes=(0,), dtype=whole.dtype)


def _custom_gradient(
    batching: Batching, given: list[Item], *, body: Graph, rule: GradientRule
) -> list[Item]:
    kinds = [x.kind for x in given]
    graph, made_kinds = batching.body(body, kinds, [Kind.MAPPED] * rule.values)
    settings = batching.name, batching.size, batching.randomness, batching.device
    given_kinds = tuple(kinds[: rule.arguments])
    pull = BatchedPull(settings, rule.pull, tuple(made_kinds[rule.values :]), given_kinds)
    push = rule.push and BatchedPush(settings, rule.push, given_kinds, given_kinds)
    new = GradientRule(rule.name, rule.values, rule.arguments, pull, push)
    made = custom_gradient(*(x.tensor for x in given), body=graph, rule=new)
    return _items(made, made_kinds)


FLOWS.update(cond=_cond, while_loop=_while_loop, scan=_scan, custom_gradient=_custom_gradient)
