"""What families share: sizes of known networks, weighted choices, views of operands."""

import importlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from fuzzing.cases import Function, Parameters, Shape

T = TypeVar("T")

# Widths of known networks, by how often they are met.
WIDTHS = {
    64: 1, 96: 1, 128: 2, 192: 1, 256: 2, 320: 1, 384: 2, 512: 3, 576: 1, 640: 1, 768: 6, 896: 1,
    1024: 4, 1152: 1, 1280: 2, 1536: 1, 1600: 1, 2048: 3, 2560: 1, 3072: 1, 4096: 3,
}  # fmt: skip
# Tokens of a sequence: decoding, ragged batches, image patches, texts.
TOKENS = {
    1: 4, 7: 1, 16: 1, 32: 3, 50: 1, 64: 1, 77: 1, 100: 1, 128: 4, 197: 2, 256: 3, 257: 1, 333: 1,
    384: 1, 512: 3, 577: 1, 1024: 3, 1500: 1, 2048: 2, 4096: 1,
}  # fmt: skip
BATCHES = {1: 5, 2: 2, 3: 1, 4: 2, 8: 4, 16: 2, 32: 3, 64: 1}
VOCABULARIES = {50257: 3, 30522: 3, 32000: 2, 151936: 1, 49152: 1, 1000: 3, 10: 1, 250: 1, 65: 1}


def one(random: Random, weighted: Mapping[T, float]) -> T:
    """Return one of some values, by their weights."""
    return random.choices(list(weighted), list(weighted.values()))[0]


def chance(random: Random, probability: float) -> int:
    """Return 1 with a probability, else 0."""
    return int(random.random() < probability)


def rows_of(random: Random) -> Shape:
    """Return the leading axes of activations: batch and tokens, or rows of a batch."""
    if random.random() < 0.2:
        return (one(random, {1: 2, 7: 1, 8: 1, 32: 3, 64: 2, 100: 1, 128: 2, 256: 2, 1000: 1}),)
    return (one(random, BATCHES), one(random, TOKENS))


def library(name: str) -> Any:
    """Return a module that only the process has in which cases are measured."""
    return importlib.import_module(name)


def calor_nn() -> Any:
    """Return calor's functions of layers."""
    return library("calor.nn").functional


def torch_nn() -> Any:
    """Return torch's functions of layers."""
    return library("torch.nn.functional")


def alike(call: Function) -> tuple[Function, Function]:
    """Return the functions of both libraries of one that takes the library before its operands."""
    return (lambda *x: call(library("calor"), *x)), (lambda *x: call(library("torch"), *x))


def alike_nn(call: Function) -> tuple[Function, Function]:
    """Return the functions of both libraries of one that takes the functions of layers first."""
    return (lambda *x: call(calor_nn(), *x)), (lambda *x: call(torch_nn(), *x))


def is_torch(lib: Any) -> bool:
    """Return whether a library, or its module of layers, is torch."""
    return bool(lib.__name__.startswith("torch"))


def like(x: Any, y: Any) -> Any:
    """Return x of either library in the dtype of y."""
    return x.to(y.dtype) if hasattr(x, "new_zeros") else x.astype(y.dtype)


def single(x: Any) -> Any:
    """Return x of either library in float32, unless it is in float64."""
    if hasattr(x, "new_zeros"):
        return x if x.dtype.itemsize > 4 else x.float()
    return x.astype("float32")


def span(lib: Any, count: int, x: Any) -> Any:
    """Return 0, 1, ... of either library where x is."""
    return lib.arange(count, device=x.device) if is_torch(lib) else lib.arange(count)


def largest(lib: Any, x: Any, axis: int, keepdims: bool = False) -> Any:
    """Return the largest along an axis."""
    call = lib.amax if is_torch(lib) else lib.max
    return call(x, axis=axis, keepdims=keepdims)


def below(lib: Any, x: Any, diagonal: int = 0) -> Any:
    """Return the lower triangles of matrices of either library, up to a diagonal."""
    return lib.tril(x, **{"diagonal" if is_torch(lib) else "k": diagonal})


def running(lib: Any, x: Any, axis: int) -> Any:
    """Return running sums of either library along an axis."""
    return (lib.cumsum if is_torch(lib) else lib.cumulative_sum)(x, axis=axis)


def permuted(x: Any, axes: Sequence[int]) -> Any:
    """Return x of either library with its axes in another order."""
    return x.permute(*axes) if hasattr(x, "permute") else x.permute_dims(tuple(axes))


def activation(name: str) -> tuple[Function, Function]:
    """Return an activation of calor and of torch."""
    if name == "none":
        return (lambda x: x), (lambda x: x)
    if name == "gelu_tanh":
        return (
            lambda x: library("calor").gelu(x, approximate="tanh"),
            lambda x: torch_nn().gelu(x, approximate="tanh"),
        )
    theirs = {"hard_swish": "hardswish"}.get(name, name)
    return (
        lambda x: _named(name, calor_nn(), library("calor"))(x),
        lambda x: _named(theirs, torch_nn(), library("torch"))(x),
    )


def _named(name: str, *owners: Any) -> Function:
    found: Function = next(getattr(owner, name) for owner in owners if hasattr(owner, name))
    return found


def sizes(p: Parameters, *names: str) -> list[Any]:
    """Return parameters by their names."""
    return [p[name] for name in names]
