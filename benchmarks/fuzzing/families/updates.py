"""Updates of optimizers over the many tensors of a network, and the norm of all gradients."""

from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import library, one, sizes

_FORMS = {"sgd": 1, "momentum": 2, "adam": 4, "clip": 2, "ema": 1}


def _draw(random: Random) -> Parameters:
    return {
        "form": one(random, _FORMS),
        "network": one(random, {"transformer": 4, "convolutions": 2, "perceptron": 1}),
        "width": one(random, {32: 1, 64: 1, 128: 2, 256: 2, 512: 1, 768: 1}),
        "layers": one(random, {1: 1, 2: 2, 6: 1, 12: 1}),
    }


def shapes_of(network: str, width: int, layers: int) -> list[Shape]:
    """Return the shapes of the tensors of a network."""
    if network == "transformer":
        layer = [(3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,),
                 (4 * width, width), (4 * width,), (width, 4 * width), (width,)]  # fmt: skip
    elif network == "convolutions":
        layer = [(width, width, 3, 3), (width,), (width,), (width, width, 1, 1), (width,), (width,)]
    else:
        layer = [(width, width), (width,)]
    return layer * layers


def _update(p: Parameters) -> Work:
    form, network, width, layers = sizes(p, "form", "network", "width", "layers")
    shapes = shapes_of(network, width, layers)
    count = len(shapes)
    # Weights, gradients and what the optimizer keeps: moments, and variances.
    kinds = {"sgd": 2, "momentum": 3, "adam": 4, "clip": 1, "ema": 2}[form]
    operands = [Operand(s, "float32", positive=kind == 3) for kind in range(kinds) for s in shapes]

    def groups(given: Any) -> list[list[Any]]:
        return [list(given[i * count : (i + 1) * count]) for i in range(kinds)]

    def ours(*given: Any) -> Any:
        return _plain(library("calor"), form, groups(given))

    def theirs(*given: Any) -> Any:
        return _foreach(library("torch"), form, groups(given))

    return Work(tuple(operands), ours, theirs, (1,), depth=count)


def _plain(lib: Any, form: str, given: list[list[Any]]) -> Any:
    """Return the updates, tensor by tensor, as an optimizer in Python is written."""
    w, *rest = given
    if form == "clip":
        total = sum((x * x).sum() for x in w)
        scale = lib.minimum(1 / (lib.sqrt(total) + 1e-6), lib.ones_like(total))
        return [x * scale for x in w]
    if form == "ema":
        return [0.99 * x + 0.01 * y for x, y in zip(w, rest[0], strict=True)]
    if form == "sgd":
        return [x - 0.1 * g for x, g in zip(w, rest[0], strict=True)]
    if form == "momentum":
        moved = [0.9 * m + g for m, g in zip(rest[1], rest[0], strict=True)]
        return [x - 0.1 * m for x, m in zip(w, moved, strict=True)] + moved
    gradients, means, squares = rest
    means = [0.9 * m + 0.1 * g for m, g in zip(means, gradients, strict=True)]
    squares = [0.999 * v + 0.001 * g * g for v, g in zip(squares, gradients, strict=True)]
    made = [
        x - 1e-3 * (m / (lib.sqrt(v) + 1e-8)) for x, m, v in zip(w, means, squares, strict=True)
    ]
    return made + means + squares


def _foreach(torch: Any, form: str, given: list[list[Any]]) -> Any:
    """Return the updates by torch's functions of many tensors, which its optimizers use."""
    w, *rest = given
    if form == "clip":
        norms = torch._foreach_norm(w)
        scale = (1 / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1)
        return list(torch._foreach_mul(w, scale))
    if form == "ema":
        return list(torch._foreach_lerp(w, rest[0], 0.01))
    if form == "sgd":
        return list(torch._foreach_add(w, rest[0], alpha=-0.1))
    if form == "momentum":
        moved = torch._foreach_add(torch._foreach_mul(rest[1], 0.9), rest[0])
        return [*torch._foreach_add(w, moved, alpha=-0.1), *moved]
    gradients, means, squares = rest
    means = torch._foreach_lerp(means, gradients, 0.1)
    squares = torch._foreach_addcmul(
        torch._foreach_mul(squares, 0.999), gradients, gradients, 0.001
    )
    roots = torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)
    return [*torch._foreach_addcdiv(w, means, roots, -1e-3), *means, *squares]


FAMILIES = (Family("update", 4, _draw, _update, ("layers",), gradient=0.0),)
