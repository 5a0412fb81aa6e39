"""Embeddings, gathers, scatters, one-hot rows, with their gradients."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    BATCHES,
    TOKENS,
    VOCABULARIES,
    WIDTHS,
    calor_nn,
    library,
    one,
    sizes,
    torch_nn,
)  # fmt: skip


def _draw_embedding(random: Random) -> Parameters:
    # Few words: categories of tables, weekdays, segments.
    known = {**VOCABULARIES, 512: 1, 2: 1, 7: 1, 24: 0.5, 193: 0.5, 1_000_000: 0.5, 100_000: 1}
    return {
        "ids": (one(random, BATCHES), one(random, TOKENS)),
        "words": one(random, known),
        "width": one(random, {12: 1, 16: 1, 32: 1, 64: 1, **WIDTHS}),
        "form": one(random, {"plain": 3, "positions": 2, "sum": 1}),
    }


def _embedding(p: Parameters) -> Work:
    """Return rows of a table; positions: with those of positions added; sum: added up by bag."""
    ids, words, width, form = sizes(p, "ids", "words", "width", "form")
    operands = [
        Operand(ids, "index", words),
        Operand((words, width), weight=True, read=prod(ids) * width),
    ]
    operands += [Operand((ids[1], width), weight=True)] * (form == "positions")
    made = (ids[0], width) if form == "sum" else (*ids, width)

    def after(x: Any, rest: Any) -> Any:
        return x + rest[0] if rest else x.sum(1) if form == "sum" else x

    return Work(
        tuple(operands),
        lambda i, w, *rest: after(calor_nn().embedding(i, w), rest),
        lambda i, w, *rest: after(torch_nn().embedding(i, w), rest),
        made, depth=max(ids[1], prod(ids) // words),
    )  # fmt: skip


def _draw_gather(random: Random) -> Parameters:
    form = one(random, {"rows": 3, "columns": 2, "along": 3, "add": 4, "nodes": 3, "one_hot": 2,
                        "one_hot_product": 1})  # fmt: skip
    nodes = one(random, {1000: 1, 2708: 1, 10_000: 2, 100_000: 1})
    return {
        "form": form,
        "rows": one(random, {128: 1, 512: 1, 1000: 1, 4096: 1}) if "one_hot" in form else nodes,
        "width": one(random, {1: 1, 16: 1, 64: 2, 128: 2, 256: 1, 1433: 0.3}),
        "picks": one(random, {1: 0.5, 100: 1, 1000: 1, 10_556: 1, 100_000: 1}),
    }


def _gather(p: Parameters) -> Work:
    """Return a gather or scatter.

    nodes: messages along edges, summed by their targets; one_hot_product: of one-hot rows of 64
    classes and a table, as experts are chosen.
    """
    form, rows, width, picks = sizes(p, "form", "rows", "width", "picks")
    table, index = Operand((rows, width), read=picks * width), Operand((picks,), "index", rows)
    if form == "one_hot":
        classes = max(width, 2)
        return Work(
            (Operand((rows,), "index", classes), Operand((rows, classes))),
            lambda i, x: calor_nn().one_hot(i, classes).astype(x.dtype) * x,
            lambda i, x: torch_nn().one_hot(i, classes).to(x.dtype) * x,
            (rows, classes),
        )  # fmt: skip
    if form == "one_hot_product":
        return Work(
            (Operand((rows,), "index", 64), Operand((64, width))),
            lambda i, x: calor_nn().one_hot(i, 64).astype(x.dtype) @ x,
            lambda i, x: torch_nn().one_hot(i, 64).to(x.dtype) @ x,
            (rows, width), flops=128.0 * rows * width, depth=max(64, rows // 64),
        )  # fmt: skip
    if form in ("rows", "columns"):
        axis = 0 if form == "rows" else 1
        turned = table if form == "rows" else Operand((width, rows), read=picks * width)
        return Work(
            (turned, index),
            lambda x, i: library("calor").take(x, i, axis=axis),
            lambda x, i: library("torch").index_select(x, axis, i),
            (picks, width) if form == "rows" else (width, picks), depth=picks // rows + 1,
        )  # fmt: skip
    if form == "along":
        count = min(picks, 64)
        return Work(
            (Operand((rows, width)), Operand((rows, count), "index", width)),
            lambda x, i: library("calor").take_along_axis(x, i, axis=1),
            lambda x, i: library("torch").gather(x, 1, i),
            (rows, count), depth=count,
        )  # fmt: skip
    given = (Operand((rows, width)), index, Operand((picks, width)))
    if form == "nodes":
        given = (Operand((rows, width)), index, Operand((picks,), "index", rows))
    depth = picks // rows + 8

    def ours(x: Any, i: Any, y: Any) -> Any:
        calor = library("calor")
        y = calor.take(x, y, axis=0) if form == "nodes" else y
        x = x * 0 if form == "nodes" else x
        return calor.scatter_nd(x, i.reshape(-1, 1), y, update="add")

    def theirs(x: Any, i: Any, y: Any) -> Any:
        y = x.index_select(0, y) if form == "nodes" else y
        x = library("torch").zeros_like(x) if form == "nodes" else x
        return x.index_add(0, i, y)

    return Work(given, ours, theirs, (rows, width), depth=depth)


FAMILIES = (
    Family("embedding", 4, _draw_embedding, _embedding, ("ids",)),
    Family("gather", 3, _draw_gather, _gather, ("picks",)),
)
