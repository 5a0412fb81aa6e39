"""Chains of elementwise ops on random bits, which are drawn where they are used (dropout).

Requirements: a unit draws the words of its own values, so that bits are neither written nor read;
numbers are those of the separate launches. The bits must be the chain's alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import DType, uint8, uint16, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.cost import Ceilings, moved
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.library.elementwise.links import Links
from calor_kernel.library.elementwise.lower import Problem, problem_of
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.paths import Path, along, in_place
from calor_kernel.library.elementwise.strided import Blueprint, Run
from calor_kernel.library.elementwise.values import parts, stored
from calor_kernel.library.random import WEIGHT, WORDS, drawn_words
from calor_kernel.library.steps import Steps

RANDOM_CHAIN: Final = "random_chain"
_DTYPES: Final = (uint8, uint16, uint32)


@kl.kernel
def elementwise_random(
    key: kl.In,
    counter: kl.In,
    sources: tuple[kl.In, ...],
    targets: tuple[kl.Out, ...],
    count: kl.Size,
    chunk: kl.Size,
    *,
    by: Blueprint,
    place: int,
    dtype: DType,
) -> None:
    """Compute ``count`` values of dense operands, single values and random bits.

    ``place``: the number of the operand that is random, of ``dtype``; the sources are the others.
    """
    given = [*sources[:place], key, *sources[place:]]
    nowhere = [0] * len(given)
    # The key stands for an operand that is not read.
    ahead = by.fixed(given, nowhere)
    width, end = by.width, kl.min((kl.cube_position() + 1) * chunk, count)
    first = kl.cube_position() * chunk + kl.unit_position() * width
    for i in kl.loop_range(first, end, kl.cube_size() * width):
        bits = drawn_words(key, counter, i, dtype, width)
        known = [*ahead[:place], bits, *ahead[place + 1 :]]
        run = Run(by, given, targets, nowhere, nowhere, known, flat=True)
        places, rest = run.places(i), end - i
        if rest >= width:
            values = run.read(places)
        else:
            values = run.read(places, rest)
        made = by.expression.evaluate(values)
        if rest >= width:
            run.write(i, made)
        else:
            run.write(i, made, rest)


@lowering(RANDOM_CHAIN, dense=(0, 1))
def lower_random_chain(request: Request) -> Sequence[Work] | Refusal:
    """Lower an ``expression`` of ``operands`` and random bits, operand ``place`` of it.

    Inputs are the key and the counter, then those that ``operands``, as a chain's, refer to.
    """
    expression: Expression = request.attributes["expression"]
    place: int = request.attributes["place"]
    operands: tuple[tuple[int, Path], ...] = request.attributes["operands"]
    views = [along(path, request.inputs[number]) for number, path in operands]
    found = [view for view in views if view is not None]
    if len(found) < len(views):
        return Refusal("an operand has no strides on its way")
    (first, *_), dtype = request.outputs, expression.operands[place]
    bits = View.dense(spec_of(first.shape, dtype))
    whole = [*found[:place], bits, *found[place:]]
    problem = problem_of(expression, whole, request.outputs, request.info)
    if not problem.is_flat or uint32 not in request.info.dtypes:
        return _apart(request, expression, operands, place)
    pairs = in_place(operands, found, request.outputs, request.info)
    return [replace(_drawn(problem, request.inputs, operands, place, dtype), in_place=pairs)]


def _drawn(
    p: Problem,
    inputs: Sequence[View],
    operands: Sequence[tuple[int, Path]],
    place: int,
    dtype: DType,
) -> Work:
    """Return the launch of a flat problem."""
    key, counter, *_ = inputs
    width = max(p.width if p.many else p.width * p.vectors, WORDS)
    chunk = p.chunk(p.units * width)
    views = [*p.views[:place], *p.views[place + 1 :]]
    sources = [
        Bound(Input(n, v.offset * parts(v.dtype)), stored(v.dtype))
        for (n, _), v in zip(operands, views, strict=True)
    ]
    weight = p.expression.weight + WEIGHT // WORDS
    nbytes = p.count * (p.value_bytes - dtype.itemsize)
    made = launch(
        elementwise_random,
        Grid.line(greatest(-(-p.count // chunk), 1), p.units),
        Effort("elementwise.random", p.count * weight, nbytes),
        key=operand(0, key),
        counter=operand(1, counter),
        sources=sources,
        targets=[Bound(Output(k), stored(s.dtype)) for k, s in enumerate(p.outputs)],
        count=p.count,
        chunk=chunk,
        by=p.blueprint(width),
        place=place,
        dtype=dtype,
    )
    return Work((made,))


def _apart(
    request: Request, expression: Expression, operands: tuple[tuple[int, Path], ...], place: int
) -> list[Work]:
    """Return the work of bits in memory, and of a chain that reads them."""
    steps, shape = Steps(), request.outputs[0].shape
    bits = spec_of(shape, expression.operands[place])
    lines = steps.memory(bits.nbytes)
    pairs: list[tuple[View, Argument]] = [(view, Input(k)) for k, view in enumerate(request.inputs)]
    attributes = {"shape": shape, "bits": 8 * bits.dtype.itemsize}
    steps.include(request, "random_bits", attributes, pairs[:2], [(bits, lines)])
    of = (*operands[:place], (len(pairs), ()), *operands[place:])
    given = {"expression": expression, "operands": of}
    results = [(s, Output(k)) for k, s in enumerate(request.outputs)]
    pairs.append((View.dense(bits), lines))
    steps.include(request, "elementwise_chain", given, pairs, results)
    return [steps.work()]


def with_bits(links: Links, chain: Group, ceilings: Ceilings) -> Iterator[Group]:
    """Yield a chain together with the node whose random bits it alone reads, if there is one."""
    graph, size = links.graph, links.graph.specs[chain.outputs[0]].size
    pairs = chain.attributes["operands"]
    for place, (number, path) in enumerate(pairs):
        value = chain.inputs[number]
        maker = links.maker.get(value, -1)
        if maker < 0 or maker in links.grouped or graph.nodes[maker].op.name != "random_bits":
            continue
        bits = graph.specs[value]
        view = along(path, View.dense(bits))
        alone = value not in links.wanted and chain.inputs.count(value) == 1
        alone = alone and sum(n == number for n, _ in pairs) == 1
        alone = alone and set(links.readers[value]) <= set(chain.nodes)
        if not alone or view is None or not view.is_dense or view.size != size:
            continue
        if bits.dtype not in _DTYPES or bits.size != size:
            continue
        node = graph.nodes[maker]
        rest = [v for v in chain.inputs if v != value]
        inputs = (*node.inputs, *rest)
        of = tuple((2 + rest.index(chain.inputs[n]), way) for n, way in pairs if n != number)
        cost = ceilings.seconds(moved(graph, set(inputs), chain.outputs), 2 * size)
        given = {"expression": chain.attributes["expression"], "operands": of, "place": place}
        nodes = tuple(sorted((*chain.nodes, maker)))
        yield Group(nodes, RANDOM_CHAIN, inputs, chain.outputs, cost, given)
        return
