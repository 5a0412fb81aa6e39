"""Graphs, points, recommenders: segments, edges, bags, pairs of features, nearest neighbours."""

from functools import cache
from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    alike,
    calor_nn,
    is_torch,
    largest,
    library,
    one,
    sizes,
    torch_nn,
)

# Nodes and edges: citations, molecules in batches, meshes, products, proteins.
_GRAPHS = {(2708, 10556): 2, (3327, 9104): 1, (800, 1700): 2, (20_000, 60_000): 1,
           (1000, 30_000): 1,
           (40_962, 245_760): 0.5, (100_000, 500_000): 0.5, (5000, 100_000): 1}  # fmt: skip
_WIDTHS = {1: 0.5, 8: 1, 16: 1, 64: 3, 128: 3, 256: 1}
_FORMS = {
    "sum": 3,
    "mean": 2,
    "max": 2,
    "softmax": 3,
    "gate": 2,
    "norm": 2,
    "edges": 2,
    "pooled": 1,
}


def _draw(random: Random) -> Parameters:
    nodes, edges = one(random, _GRAPHS)
    return {
        "form": one(random, _FORMS), "edges": edges, "nodes": nodes, "width": one(random, _WIDTHS),
        "heads": one(random, {1: 1, 4: 1, 8: 2}),
    }  # fmt: skip


def _segments(p: Parameters) -> Work:
    """Return reductions of edges by their nodes.

    softmax: GAT's weights of edges, by node and head; gate: messages of sources times gates;
    norm: GCN's by degrees; edges: differences of both ends (EdgeConv); pooled: sums of nodes by
    sorted graphs.
    """
    form, edges, nodes, width, heads = sizes(p, "form", "edges", "nodes", "width", "heads")
    if form == "pooled":
        edges, nodes = nodes, max(1, nodes // 25)
    x, index = Operand((edges, width)), Operand((edges,), "index", nodes)
    made, depth = (nodes, width), edges // nodes + 8
    if form in ("sum", "mean", "max", "pooled"):
        name = {"pooled": "sum"}.get(form, form)
        return Work((x, index), *alike(lambda lib, x, i: _reduced(lib, x, i, nodes, name)), made,
                    float(prod(x.shape)), depth)  # fmt: skip
    table = Operand((nodes, width))
    if form == "softmax":
        return Work((Operand((edges, heads)), index),
                    *alike(lambda lib, x, i: _segment_softmax(lib, x, i, nodes)), (edges, heads),
                    8.0 * edges * heads, depth)  # fmt: skip

    def gate(lib: Any, x: Any, e: Any, source: Any, target: Any) -> Any:
        return _reduced(lib, _rows(lib, x, source) * e, target, nodes, "sum")

    def norm(lib: Any, x: Any, source: Any, target: Any) -> Any:
        ones = 0 * _rows(lib, x, target)[:, :1] + 1
        degrees = _reduced(lib, ones, target, nodes, "sum") + 1
        scale = 1 / lib.sqrt(degrees)
        return _reduced(lib, _rows(lib, x * scale, source), target, nodes, "sum") * scale

    def ends(lib: Any, x: Any, source: Any, target: Any) -> Any:
        first = _rows(lib, x, target)
        return lib.concat([first, _rows(lib, x, source) - first], axis=-1)

    if form == "gate":
        return Work((table, x, index, index), *alike(gate), made, 2.0 * prod(x.shape), depth)
    if form == "norm":
        return Work((table, index, index), *alike(norm), made, 2.0 * prod(x.shape), depth)
    return Work((table, index, index), *alike(ends), (edges, 2 * width), depth=depth)


def _rows(lib: Any, x: Any, index: Any) -> Any:
    return x.index_select(0, index) if is_torch(lib) else lib.take(x, index, axis=0)


def _reduced(lib: Any, x: Any, index: Any, nodes: int, name: str) -> Any:
    """Return sums, means or the largest of rows by their segments; of none 0."""
    if not is_torch(lib):
        if name == "max":
            made = lib.segment_max(x, index, nodes)
            return lib.where(made > -1e4, made, 0.0)
        made = getattr(lib, f"segment_{name}")(x, index, nodes)
        return lib.where(made == made, made, 0.0) if name == "mean" else made
    zeros = x.new_zeros(nodes, x.shape[1])
    if name == "sum":
        return zeros.index_add(0, index, x)
    to = index[:, None].expand_as(x)
    return zeros.scatter_reduce(0, to, x, {"max": "amax"}.get(name, name), include_self=False)


def _segment_softmax(lib: Any, x: Any, index: Any, nodes: int) -> Any:
    top = _rows(lib, _reduced(lib, x, index, nodes, "max"), index)
    made = lib.exp(x - (top.detach() if is_torch(lib) else lib.stop_gradient(top)))
    return made / (_rows(lib, _reduced(lib, made, index, nodes, "sum"), index) + 1e-6)


@cache
def _pairs(fields: int, device: Any) -> Any:
    """Return the rows and columns of all pairs, as a module of torch holds them in buffers."""
    return library("torch").tril_indices(fields, fields, -1, device=device).unbind()


def _draw_tables(random: Random) -> Parameters:
    return {
        "form": one(random, {"bag": 3, "weighted": 1, "largest": 1, "interaction": 2, "machine": 2,
                             "cross": 1, "fields": 2}),
        "batch": one(random, {1: 1, 128: 1, 512: 1, 2048: 2, 8192: 1}),
        "items": one(random, {5: 1, 20: 2, 50: 2, 100: 1}),
        "fields": one(random, {8: 1, 26: 3, 39: 2}),
        "words": one(random, {1000: 1, 100_000: 2, 1_000_000: 1}),
        "width": one(random, {8: 1, 10: 1, 16: 2, 32: 1, 64: 2, 128: 1}),
    }  # fmt: skip


def _tables(p: Parameters) -> Work:
    """Return features of recommenders: bags of rows, products of pairs, factorization machines."""
    form, batch, items, fields, words, width = sizes(
        p, "form", "batch", "items", "fields", "words", "width"
    )
    table = Operand((words, width), weight=True, read=batch * items * width)
    if form in ("bag", "weighted", "largest"):
        mode = {"bag": "mean", "weighted": "sum", "largest": "max"}[form]
        ids = Operand((batch, items), "index", words)
        weights = [Operand((batch, items))] * (form == "weighted")

        def call(lib: Any, i: Any, w: Any, *more: Any) -> Any:
            nn = torch_nn() if is_torch(lib) else calor_nn()
            given = {"per_sample_weights": more[0]} if more else {}
            return nn.embedding_bag(i, w, mode=mode, **given)

        return Work((ids, table, *weights), *alike(call), (batch, width), depth=items * 4)
    x = Operand((batch, fields, width))
    pairs = fields * (fields - 1) // 2

    def interaction(lib: Any, x: Any) -> Any:
        products = x @ x.mT
        if is_torch(lib):
            return products[:, *_pairs(fields, x.device)]
        a, b = zip(*((i, j) for i in range(fields) for j in range(i)), strict=True)
        return products[:, list(a), list(b)]

    def machine(lib: Any, x: Any) -> Any:
        return 0.5 * (x.sum(axis=1) ** 2 - (x * x).sum(axis=1)).sum(axis=-1)

    def cross(lib: Any, x: Any, w: Any, b: Any) -> Any:
        rows = x.reshape(batch, fields * width)
        return rows * (rows @ w * (fields * width) ** -0.5 + b) + rows

    if form == "interaction":
        return Work(
            (x,), *alike(interaction), (batch, pairs), 2.0 * batch * fields**2 * width, width
        )
    if form == "machine":
        return Work((x,), *alike(machine), (batch,), 4.0 * prod(x.shape), fields * width)
    if form == "cross":
        size = fields * width
        given = (x, Operand((size, size), weight=True), Operand((size,), weight=True))
        return Work(given, *alike(cross), (batch, size), 2.0 * batch * size**2, size)
    ids = Operand((batch, fields), "index", words)

    def looked_up(lib: Any, i: Any, *tables: Any) -> Any:
        columns = zip(range(len(tables)), tables, strict=True)
        return lib.stack([_rows(lib, w, i[:, n]) for n, w in columns], axis=1)

    count = min(fields, 8)
    tables = (Operand((max(2, words // 10), width), weight=True, read=batch * width),) * count
    ids = Operand((batch, count), "index", max(2, words // 10))
    return Work((ids, *tables), *alike(looked_up), (batch, count, width), depth=8)


def _draw_points(random: Random) -> Parameters:
    return {
        "form": one(random, {"distances": 3, "nearest": 2, "grouped": 2, "global": 2, "chamfer": 1,
                             "interpolated": 1, "radial": 1}),
        "batch": one(random, {1: 2, 4: 1, 8: 2, 16: 1, 32: 1}),
        "points": one(random, {128: 1, 512: 2, 1024: 3, 2048: 1}),
        "width": one(random, {3: 3, 16: 1, 64: 2, 128: 1}),
        "near": one(random, {3: 1, 16: 1, 20: 2, 32: 1}),
    }  # fmt: skip


def _points(p: Parameters) -> Work:
    """Return what networks of points compute: distances, neighbours, the largest of groups.

    interpolated: three neighbours by inverse distances (PointNet++); radial: SchNet's bases.
    """
    form, batch, points, width, near = sizes(p, "form", "batch", "points", "width", "near")
    x, y = Operand((batch, points, width)), Operand((batch, points // 2, width))

    def squared(lib: Any, a: Any, b: Any) -> Any:
        inner = a @ b.mT
        return (a * a).sum(axis=-1)[..., None] - 2 * inner + (b * b).sum(axis=-1)[:, None]

    def nearest(lib: Any, x: Any) -> Any:
        return -lib.topk(-squared(lib, x, x), near)[0]

    def chamfer(lib: Any, x: Any, y: Any) -> Any:
        apart = -squared(lib, x, y)
        return -(largest(lib, apart, 2).mean() + largest(lib, apart, 1).mean())

    def distances(lib: Any, x: Any, y: Any) -> Any:
        return lib.cdist(x, y)

    def radial(lib: Any, d: Any) -> Any:
        centers = lib.linspace(0.0, 5.0, width * 4 + 1)
        centers = centers.to(d) if is_torch(lib) else centers.astype(d.dtype)
        return lib.exp(-10.0 * (d[..., None] - centers) ** 2)

    flops = 2.0 * batch * points * points // 2 * width
    if form == "distances":
        single_ = Operand(x.shape, "float32"), Operand(y.shape, "float32")
        return Work(single_, *alike(distances), (batch, points, points // 2), flops, 16 * width)
    if form == "nearest":
        return Work((x,), *alike(nearest), (batch, points, near), 2 * flops, 64 * width)
    if form == "chamfer":
        return Work((x, y), *alike(chamfer), (), flops, 64 * width)
    if form == "radial":
        made = (batch, points, width * 4 + 1)
        return Work((Operand(made[:2]),), *alike(radial), made, 5.0 * prod(made))
    if form == "global":
        return Work((x,), *alike(lambda lib, x: largest(lib, x, 1)), (batch, width), depth=1)
    index = Operand((batch, points, near), "index", points)
    groups = (batch, points, near, width)

    def picked(lib: Any, x: Any, i: Any) -> Any:
        flat = i.reshape(batch, points * near)
        if is_torch(lib):
            found = x.gather(1, flat[..., None].expand(-1, -1, width))
        else:
            to = lib.broadcast_to(flat[..., None], (batch, points * near, width))
            found = lib.take_along_axis(x, to, axis=1)
        return found.reshape(groups)

    def grouped(lib: Any, x: Any, i: Any) -> Any:
        return largest(lib, picked(lib, x, i) - x[:, :, None], 2)

    def interpolated(lib: Any, x: Any, d: Any, i: Any) -> Any:
        weights = 1 / (d + 0.1)
        return ((weights / weights.sum(axis=-1, keepdims=True))[..., None] * picked(lib, x, i)).sum(
            axis=2
        )

    if form == "grouped":
        return Work((x, index), *alike(grouped), x.shape, float(prod(groups)), near)
    weights = Operand((batch, points, near), positive=True)
    return Work((x, weights, index), *alike(interpolated), x.shape, 4.0 * prod(groups), near * 8)


FAMILIES = (
    Family("segments", 2.5, _draw, _segments, ("edges",)),
    Family("tables", 1.5, _draw_tables, _tables, ("batch",)),
    Family("points", 1.5, _draw_points, _points, ("batch",)),
)
