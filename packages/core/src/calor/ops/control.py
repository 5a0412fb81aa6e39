"""Rows of control flow: nodes with sub-graphs whose captures are operands.

``cond(predicate, *operands)`` runs one of two graphs on the operands. ``while_loop(*condition
captures, *body captures, *carry)`` repeats a body while a condition holds. ``scan(*captures,
*carry, *xs)`` runs a body over the leading axis of xs; with ``keep`` it also returns the carry
before each step, which its gradient reads.

Their gradients are control flow again, so they are written where that is traced, and given to the
rows there (:mod:`calor.transforms.control_gradients`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bool_
from calor.errors import DTypeError, ShapeError
from calor.graph.graph import Graph
from calor.graph.interpreter import interpret
from calor.ops.base import Op, op
from calor.specs import Spec, spec


def _check_inputs(what: str, graph: Graph, given: tuple[Spec, ...]) -> None:
    wanted = tuple((s.shape, s.dtype) for s in graph.input_specs)
    if tuple((s.shape, s.dtype) for s in given) != wanted:
        raise ShapeError(f"{what}: operands {given} do not fit its graph's {graph.input_specs}")


def plain(specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Return the specs without weakness."""
    return tuple(spec(s.shape, s.dtype) for s in specs)


def _cond_rule(predicate: Spec, *operands: Spec, then: Graph, otherwise: Graph) -> tuple[Spec, ...]:
    if predicate.shape != () or predicate.dtype is not bool_:
        raise DTypeError(f"cond: the predicate must be a 0-d bool, not {predicate}")
    _check_inputs("cond", then, operands)
    _check_inputs("cond", otherwise, operands)
    if plain(then.output_specs) != plain(otherwise.output_specs):
        raise ShapeError(
            f"cond: the branches return {then.output_specs} and {otherwise.output_specs}; "
            f"both must return the same shapes and dtypes"
        )
    return plain(then.output_specs)


def _cond_reference(predicate: Any, *operands: Any, then: Graph, otherwise: Graph) -> Any:
    return tuple(interpret(then if predicate else otherwise, operands))


cond: Op = op("cond", _cond_rule, _cond_reference, saves="*")


def _split(operands: Any, *counts: int) -> list[Any]:
    parts, start = [], 0
    for count in counts:
        parts.append(operands[start : start + count])
        start += count
    return [*parts, operands[start:]]


def _while_rule(
    *operands: Spec, condition: Graph, body: Graph, captures: tuple[int, int]
) -> tuple[Spec, ...]:
    first, second, carry = _split(operands, *captures)
    _check_inputs("while_loop condition", condition, (*carry, *first))
    _check_inputs("while_loop body", body, (*carry, *second))
    test = condition.output_specs
    if len(test) != 1 or test[0].shape != () or test[0].dtype is not bool_:
        raise DTypeError(f"while_loop: the condition must return a 0-d bool, not {test}")
    if plain(body.output_specs) != plain(carry):
        raise ShapeError(
            f"while_loop: the body returns {body.output_specs}, the carry is {carry}; shapes and "
            f"dtypes must stay the same"
        )
    return plain(tuple(carry))


def _while_reference(
    *operands: Any, condition: Graph, body: Graph, captures: tuple[int, int]
) -> Any:
    first, second, carry = _split(operands, *captures)
    while interpret(condition, [*carry, *first])[0]:
        carry = interpret(body, [*carry, *second])
    return tuple(np.array(c) for c in carry)


while_loop: Op = op(
    "while_loop",
    _while_rule,
    _while_reference,
    saves="*",
    no_gradient="the number of steps is known only at run time, so nothing can be remembered for "
    "the way back; use calor.scan or calor.fori_loop with fixed bounds, or calor.jvp",
)


def _scan_rule(
    *operands: Spec,
    body: Graph,
    captures: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: bool,
) -> tuple[Spec, ...]:
    held, carry, xs = _split(operands, captures, carries)
    for x in xs:
        if not x.shape or x.shape[0] != length:
            raise ShapeError(f"scan: {x} does not have {length} elements along its first axis")
    rows = tuple(spec(x.shape[1:], x.dtype) for x in xs)
    _check_inputs("scan", body, (*carry, *rows, *held))
    outputs = plain(body.output_specs)
    if outputs[:carries] != plain(tuple(carry)):
        raise ShapeError(
            f"scan: the body returns the carry {outputs[:carries]}, it was given {tuple(carry)}; "
            f"shapes and dtypes must stay the same"
        )
    stacked = tuple(spec((length, *s.shape), s.dtype) for s in outputs[carries:])
    kept = tuple(spec((length, *s.shape), s.dtype) for s in outputs[:carries]) if keep else ()
    return (*outputs[:carries], *stacked, *kept)


def _scan_reference(
    *operands: Any, body: Graph, captures: int, carries: int, length: int, reverse: bool, keep: bool
) -> Any:
    held, carry, xs = _split(operands, captures, carries)
    specs = body.output_specs
    stacked = [np.empty((length, *s.shape), s.dtype.numpy) for s in specs[carries:]]
    kept = [np.empty((length, *s.shape), s.dtype.numpy) for s in specs[:carries]] if keep else []
    for i in reversed(range(length)) if reverse else range(length):
        for store, value in zip(kept, carry, strict=True) if keep else ():
            store[i] = value
        made = interpret(body, [*carry, *[x[i] for x in xs], *held])
        carry = made[:carries]
        for store, value in zip(stacked, made[carries:], strict=True):
            store[i] = value
    return (*(np.array(c) for c in carry), *stacked, *kept)


scan: Op = op("scan", _scan_rule, _scan_reference, saves="*y", partial=True)
