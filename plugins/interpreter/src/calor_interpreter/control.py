"""Loops and branches with divergent units.

Requirements: if all units agree, a loop is a Python loop and a branch runs one side. Otherwise both
sides run under masks, and a unit keeps its values after it leaves a loop. Results of inactive units
are never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from calor_interpreter.machine import Batch, Compiler, Step
from calor_interpreter.products import Merged, Unfinished
from calor_kernel.ir.nodes import Operation

Array = np.ndarray[Any, Any]

# A loop with a test that runs longer is taken as endless: it waits for a flag that is never set.
ROUNDS = 10_000_000


def merge(mask: Array, new: Array, old: Array) -> Array:
    """Return new rows where the mask holds, else old ones."""
    if new is old:
        return new
    if isinstance(new, Unfinished) or isinstance(old, Unfinished):
        return cast("Array", Merged(mask, new, old))
    return np.where(mask if new.ndim == 1 else mask[:, None], new, old)


def if_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a branch."""
    condition = compiler.slot(operation.operands[0])
    then, otherwise = (compiler.block(region) for region in operation.regions)
    ends = [compiler.slots(region.yields) for region in operation.regions]
    results = compiler.slots(operation.results)
    triples = list(zip(results, *ends, strict=True))

    def step(batch: Batch) -> None:
        values, outer = batch.values, batch.mask
        test = values[condition]
        if len(test) == 1:
            first = bool(test[0])
            _side(batch, then if first else otherwise, results, ends[0 if first else 1])
            return
        yes = test if outer is None else test & outer
        no = ~test if outer is None else ~test & outer
        if not np.count_nonzero(yes):
            _side(batch, otherwise, results, ends[1])
            return
        if not np.count_nonzero(no):
            _side(batch, then, results, ends[0])
            return
        batch.mask = yes
        for one in then:
            one(batch)
        batch.mask = no
        for one in otherwise:
            one(batch)
        batch.mask = outer
        for result, a, b in triples:
            values[result] = merge(test, values[a], values[b])

    return step


def _side(batch: Batch, steps: Sequence[Step], results: Sequence[int], ends: Sequence[int]) -> None:
    for one in steps:
        one(batch)
    values = batch.values
    for result, end in zip(results, ends, strict=True):
        values[result] = values[end]


def for_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a loop over a range."""
    start, stop, by, *first = compiler.slots(operation.operands)
    (region,) = operation.regions
    position, *arguments = compiler.slots(region.arguments)
    body = compiler.block(region)
    yields, results = compiler.slots(region.yields), compiler.slots(operation.results)

    def step(batch: Batch) -> None:
        values = batch.values
        carried = [values[s] for s in first]
        begin, end, stride = values[start], values[stop], values[by]
        if len(begin) == len(end) == len(stride) == 1:
            if stride[0] == 0:
                batch.fail(operation, "endless", None, "the step of the range is 0")
            host = begin.dtype
            for i in range(int(begin[0]), int(end[0]), int(stride[0])):
                values[position] = np.array([i], host)
                for slot, value in zip(arguments, carried, strict=True):
                    values[slot] = value
                for one in body:
                    one(batch)
                carried = [values[s] for s in yields]
        else:
            carried = divergent(batch, begin, end, stride, carried)
        for slot, value in zip(results, carried, strict=True):
            values[slot] = value

    def divergent(
        batch: Batch, begin: Array, end: Array, stride: Array, carried: list[Array]
    ) -> list[Array]:
        values, outer = batch.values, batch.mask
        if np.count_nonzero(stride) < stride.size and (
            outer is None or (batch.full(stride == 0) & outer).any()
        ):
            batch.fail(operation, "endless", None, "the step of the range is 0")
        i, up = begin, stride > 0
        upward = bool(up.all())
        while True:
            inside = i < end if upward else np.where(up, i < end, i > end)
            inside = batch.full(inside if outer is None else inside & outer)
            count = np.count_nonzero(inside)
            if not count:
                break
            everyone = count == batch.lanes
            batch.mask = None if everyone else inside
            values[position] = i
            for slot, value in zip(arguments, carried, strict=True):
                values[slot] = value
            for one in body:
                one(batch)
            made = [values[s] for s in yields]
            carried = made if everyone else _kept(inside, made, carried)
            i = i + stride
        batch.mask = outer
        return carried

    return step


def _kept(mask: Array, new: Sequence[Array], old: Sequence[Array]) -> list[Array]:
    return [merge(mask, a, b) for a, b in zip(new, old, strict=True)]


def while_step(compiler: Compiler, operation: Operation) -> Step:
    """Return the step of a loop with a test."""
    first = compiler.slots(operation.operands)
    question, region = operation.regions
    asked, arguments = compiler.slots(question.arguments), compiler.slots(region.arguments)
    test, body = compiler.block(question), compiler.block(region)
    (answer,), yields = compiler.slots(question.yields), compiler.slots(region.yields)
    results = compiler.slots(operation.results)

    def step(batch: Batch) -> None:
        values, outer = batch.values, batch.mask
        carried = [values[s] for s in first]
        for _ in range(ROUNDS):
            for slot, value in zip(asked, carried, strict=True):
                values[slot] = value
            for one in test:
                one(batch)
            holds = values[answer]
            inside = holds if batch.mask is None else holds & batch.mask
            count = np.count_nonzero(inside)
            if not count:
                break
            everyone = count == len(inside)
            if not everyone:
                batch.mask = batch.full(inside)
            for slot, value in zip(arguments, carried, strict=True):
                values[slot] = value
            for one in body:
                one(batch)
            made = [values[s] for s in yields]
            carried = made if everyone else _kept(batch.active(), made, carried)
        else:
            lane = int(np.argmax(batch.active()))
            batch.fail(operation, "endless", lane, f"the loop goes on after {ROUNDS} rounds")
        batch.mask = outer
        for slot, value in zip(results, carried, strict=True):
            values[slot] = value

    return step
