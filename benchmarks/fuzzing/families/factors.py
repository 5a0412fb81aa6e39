"""Factorizations inside models: Gaussian processes, ridge regression, whitening, preconditioners,
flows, filters, alignments and projections.

Matrices are made well conditioned from the operands, and computed with in float32. Results do not
depend on signs that a library chooses.
"""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import alike, like, one, single, sizes

# Batch, order of the matrices, and the number of columns, points or samples beside it.
_SIZES: dict[str, list[tuple[int, int, int]]] = {
    "process": [(1, 64, 4), (1, 100, 8), (1, 256, 3), (1, 500, 6), (8, 50, 2), (64, 20, 1)],
    "ridge": [(1, 16, 1), (1, 64, 10), (1, 128, 1), (1, 512, 10), (16, 32, 5), (256, 8, 1)],
    "whiten": [(1, 16, 64), (1, 64, 256), (1, 192, 384), (4, 32, 128), (64, 8, 32)],
    "precondition": [(1, 64, 128), (1, 128, 512), (1, 256, 256), (1, 768, 768), (12, 64, 64)],
    "flow": [(1, 12, 1024), (1, 24, 256), (1, 48, 256), (1, 96, 64), (1, 192, 64)],
    "filter": [(1, 6, 2), (64, 4, 2), (256, 6, 3), (1024, 9, 3), (2048, 4, 1)],
    "align": [(1, 3, 64), (32, 3, 100), (256, 3, 16), (1024, 3, 8), (1, 64, 512)],
    "project": [(1, 8, 256), (1, 32, 1024), (1, 64, 512), (16, 8, 64), (1, 128, 256)],
}
_FORMS = {"process": 3, "ridge": 3, "whiten": 2, "precondition": 2, "flow": 2, "filter": 2,
          "align": 1, "project": 2}  # fmt: skip


def _draw(random: Random) -> Parameters:
    form = one(random, _FORMS)
    batch, order, beside = random.choice(_SIZES[form])
    # Orders between those that are known from models.
    if random.random() < 0.5 and form != "align":
        order = max(2, int(order * random.uniform(0.6, 1.4)))
    return {"form": form, "batch": batch, "order": order, "beside": max(beside, 1)}


def _factor(p: Parameters) -> Work:
    form, batch, order, beside = sizes(p, "form", "batch", "order", "beside")
    table = {"process": _process, "ridge": _ridge, "whiten": _whiten, "filter": _filter,
             "precondition": _precondition, "flow": _flow, "align": _align,
             "project": _project}  # fmt: skip
    operands, call, made = table[form](batch, order, beside)
    return Work(
        tuple(operands), *alike(call), made, flops=4.0 * batch * order**3 + prod(made),
        depth=order, uncaptured="its factorizations wait for the host",
    )  # fmt: skip


def _turned(x: Any) -> Any:
    """Return matrices of either library with their axes exchanged."""
    return x.mT


def _definite(lib: Any, x: Any, more: float) -> Any:
    """Return the mean of outer products of rows, plus a multiple of the identity."""
    x = single(x)
    eye = lib.eye(x.shape[-1], device=x.device)
    return _turned(x) @ x / x.shape[-2] + more * eye


def _process(batch: int, n: int, features: int) -> Any:
    def call(lib: Any, x: Any, y: Any) -> Any:
        points, values = single(x), single(y)
        size = (points * points).sum(-1)
        apart = size[..., :, None] + size[..., None, :] - 2 * points @ _turned(points)
        kernel = lib.exp(-0.5 * apart) + 0.1 * lib.eye(n, device=points.device)
        low = lib.linalg.cholesky(kernel)
        weights = lib.linalg.solve(kernel, values)[..., 0]
        return like(weights + lib.log(lib.linalg.diagonal(low)), x)

    return [Operand((batch, n, features)), Operand((batch, n, 1))], call, (batch, n)


def _ridge(batch: int, n: int, targets: int) -> Any:
    def call(lib: Any, x: Any, y: Any) -> Any:
        right = _turned(single(x)) @ single(y) / x.shape[-2]
        return like(lib.linalg.solve(_definite(lib, x, 0.1), right), x)

    rows = 2 * n
    return [Operand((batch, rows, n)), Operand((batch, rows, targets))], call, (batch, n, targets)


def _whiten(batch: int, n: int, rows: int) -> Any:
    def call(lib: Any, seen: Any, x: Any) -> Any:
        values, vectors = lib.linalg.eigh(_definite(lib, seen, 0.1))
        whitening = vectors * (values**-0.5)[..., None, :] @ _turned(vectors)
        return like(single(x) @ whitening, x)

    whole = (batch, rows, n)
    return [Operand((batch, 2 * n, n), fixed=True), Operand(whole)], call, whole


def _precondition(batch: int, n: int, columns: int) -> Any:
    def call(lib: Any, seen: Any, gradient: Any) -> Any:
        return like(lib.linalg.inv(_definite(lib, seen, 0.1)) @ single(gradient), gradient)

    whole = (batch, n, columns)
    return [Operand((batch, 2 * n, n), fixed=True), Operand(whole)], call, whole


def _flow(batch: int, n: int, rows: int) -> Any:
    def call(lib: Any, x: Any, w: Any) -> Any:
        mixing = w * n**-0.5 + 2 * lib.eye(n, device=w.device)
        return like(single(x) @ mixing + lib.linalg.slogdet(mixing)[1], x)

    return [Operand((rows, n)), Operand((n, n), "float32", weight=True)], call, (rows, n)


def _filter(batch: int, n: int, seen: int) -> Any:
    def call(lib: Any, x: Any, h: Any) -> Any:
        covariance = _definite(lib, x, 1.0)
        crossed = h @ covariance
        inner = crossed @ _turned(h) + lib.eye(seen, device=h.device)
        return like(_turned(lib.linalg.solve(inner, crossed)), x)

    operands = [Operand((batch, n, n)), Operand((seen, n), "float32", fixed=True)]
    return operands, call, (batch, n, seen)


def _align(batch: int, n: int, points: int) -> Any:
    def call(lib: Any, a: Any, b: Any, x: Any) -> Any:
        crossed = _turned(single(a)) @ single(a) / points + 0.1 * _turned(single(b)) @ single(a)
        u, _, vh = lib.linalg.svd(crossed / points + lib.eye(n, device=a.device))
        return like(single(x) @ (u @ vh), x)

    whole: Shape = (batch, points, n)
    return [Operand(whole, fixed=True), Operand(whole, fixed=True), Operand(whole)], call, whole


def _project(batch: int, n: int, rows: int) -> Any:
    def call(lib: Any, x: Any, y: Any) -> Any:
        basis = lib.linalg.qr(single(x))[0]
        return like(basis @ (_turned(basis) @ single(y)), x)

    return [Operand((batch, rows, n)), Operand((batch, rows, 1))], call, (batch, rows, 1)


FAMILIES = (Family("factor", 1.5, _draw, _factor, ("batch",)),)
