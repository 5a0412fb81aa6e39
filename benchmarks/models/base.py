"""What a model of the census consists of, and the library that its text is written with.

Requirements: calor and PyTorch run one text where their modules have the same names, so that both
compute the same; where the names differ, :class:`Library` has a function.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Size = Mapping[str, int]
Arrays = tuple[Array, ...]


def sized(**sizes: int) -> Size:
    """Return sizes by name."""
    return sizes


class Library:
    """Modules, functions of modules, and functions of arrays: `nn`, `functional`, `arrays`."""

    name: str
    nn: Any
    functional: Any
    arrays: Any

    def attention(self, q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
        """Return softmax(q · kᵀ / √d) · v.

        ``mask`` is True where a query attends to a key, or has numbers to add to the scores.
        """
        raise NotImplementedError

    def written(self, cache: Any, update: Any, place: Any) -> Any:
        """Return a buffer of state after a part, from ``place`` on, was overwritten."""
        raise NotImplementedError

    def encoder(self, layer: Any, count: int) -> Any:
        """Return a stack of transformer layers like one."""
        raise NotImplementedError

    def translated(self, transformer: Any, source: Any, target: Any) -> Any:
        """Return a transformer's output, each position of the target seeing those before it."""
        raise NotImplementedError

    def added(self, x: Any, rows: Any, values: Any) -> Any:
        """Return x with values added to its rows."""
        raise NotImplementedError

    def largest(self, x: Any, axis: int, *, keepdims: bool = False) -> Any:
        """Return the maximum along an axis."""
        raise NotImplementedError

    def normal(self, shape: Sequence[int]) -> Any:
        """Draw standard normal numbers."""
        raise NotImplementedError

    def optimizer(self, kind: str, parameters: Any, device: str) -> Any:
        """Return an optimizer with the census's learning rate: "sgd" (momentum 0.9) or "adamw"."""
        raise NotImplementedError


class Calor(Library):
    """calor with calor-nn and calor-train."""

    name = "calor"

    def __init__(self) -> None:
        import calor
        from calor import nn

        self.nn, self.functional, self.arrays = nn, nn.functional, calor

    def attention(self, q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
        """Return calor's attention."""
        added = mask is not None and mask.dtype != self.arrays.bool
        how = {"bias": mask} if added else {"mask": mask}
        return self.functional.scaled_dot_product_attention(q, k, v, causal=causal, **how)

    def written(self, cache: Any, update: Any, place: Any) -> Any:
        """Return a buffer with the part that starts at the numbers ``place``."""
        cache[...] = self.arrays.dynamic_update_slice(cache, update, place)
        return cache

    def encoder(self, layer: Any, count: int) -> Any:
        """Return calor's encoder."""
        return self.nn.TransformerEncoder(layer, count)

    def translated(self, transformer: Any, source: Any, target: Any) -> Any:
        """Return the output of calor's transformer."""
        return transformer(source, target, target_causal=True)

    def added(self, x: Any, rows: Any, values: Any) -> Any:
        """Return the sum by a scatter."""
        return self.arrays.scatter_nd(x, rows[:, None], values, update="add")

    def largest(self, x: Any, axis: int, *, keepdims: bool = False) -> Any:
        """Return calor's maximum."""
        return self.arrays.max(x, axis=axis, keepdims=keepdims)

    def normal(self, shape: Sequence[int]) -> Any:
        """Draw from calor's generator."""
        return self.arrays.random.normal(tuple(shape))

    def optimizer(self, kind: str, parameters: Any, device: str) -> Any:
        """Return an optimizer of calor-train, whose state has the parameters' dtype as torch's."""
        from calor import train

        held = [*parameters]
        kept = {"state_dtype": held[0].dtype}
        if kind == "sgd":
            return train.SGD(held, lr=SGD_RATE, momentum=0.9, **kept)
        return train.AdamW(held, lr=ADAMW_RATE, **kept)


class Torch(Library):
    """PyTorch."""

    name = "torch"

    def __init__(self) -> None:
        torch = importlib.import_module("torch")
        self.nn, self.functional, self.arrays = torch.nn, torch.nn.functional, torch

    def attention(self, q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None) -> Any:
        """Return torch's attention, by the backend that it chooses."""
        attend = self.functional.scaled_dot_product_attention
        return attend(q, k, v, attn_mask=mask, is_causal=causal)

    def written(self, cache: Any, update: Any, place: Any) -> Any:
        """Return a cache (N, heads, T, head) with a token at the third number of ``place``."""
        return cache.index_copy_(2, place[2:3], update)

    def encoder(self, layer: Any, count: int) -> Any:
        """Return torch's encoder; nested tensors are for padded batches, which no model has."""
        return self.nn.TransformerEncoder(layer, count, enable_nested_tensor=False)

    def translated(self, transformer: Any, source: Any, target: Any) -> Any:
        """Return the output of torch's transformer, which takes a causal mask as such."""
        length, options = target.shape[1], {"device": target.device, "dtype": target.dtype}
        mask = self.nn.Transformer.generate_square_subsequent_mask(length, **options)
        return transformer(source, target, tgt_mask=mask, tgt_is_causal=True)

    def added(self, x: Any, rows: Any, values: Any) -> Any:
        """Return the sum by torch's function."""
        return x.index_add(0, rows, values)

    def largest(self, x: Any, axis: int, *, keepdims: bool = False) -> Any:
        """Return torch's maximum, whose gradient is shared by equal ones as calor's is."""
        return self.arrays.amax(x, dim=axis, keepdim=keepdims)

    def normal(self, shape: Sequence[int]) -> Any:
        """Draw from torch's generator."""
        return self.arrays.randn(tuple(shape))

    def optimizer(self, kind: str, parameters: Any, device: str) -> Any:
        """Return torch's fastest form of an optimizer; one that CUDA graphs can hold on a GPU."""
        optim = self.arrays.optim
        if kind == "sgd":
            return optim.SGD(parameters, lr=SGD_RATE, momentum=0.9, fused=True)
        captured = device != "cpu"
        return optim.AdamW(parameters, lr=ADAMW_RATE, fused=True, capturable=captured)


SGD_RATE, ADAMW_RATE = 1e-3, 1e-4


def mean_loss(library: Library, model: Any, inputs: Sequence[Any]) -> Any:
    """Return the cross entropy of a model of all inputs but the last, which holds the classes."""
    *given, classes = inputs
    scores = model(*given)
    rows = scores.reshape(-1, scores.shape[-1])
    return library.functional.cross_entropy(rows, classes.reshape(-1))


def train_step(library: Library, loss: Any, model: Any, optimizers: Any, inputs: Any) -> Any:
    """Return the loss after a forward pass, a backward pass and an update."""
    (optimizer,) = optimizers
    value = loss(library, model, inputs)
    value.backward()
    optimizer.step()
    optimizer.zero_grad()
    return value


@dataclass(frozen=True)
class Model:
    """A model of the census.

    ``network(library, size)`` makes it with fresh weights. ``inputs(size, batch, generator)`` draws
    what a training step takes: the model's inputs, and last the targets. ``sizes`` has "full" for
    GPUs, "small" for a processor and "tiny" for tests. ``batches``: the full size's batch by mode;
    ``few``: the small size's.
    ``loss(library, model, inputs)``. ``step`` is a training step, ``parts(model)`` what has an
    optimizer each. ``decoder`` takes the network's place in the mode "decoding". ``jax`` returns
    the scores of the model in JAX: ``jax(size, parameters, inputs)``.
    """

    title: str
    network: Callable[[Library, Size], Any]
    inputs: Callable[[Size, int, np.random.Generator], Arrays]
    sizes: Mapping[str, Size]
    batches: Mapping[str, int]
    few: int = 2
    optimizer: str = "adamw"
    loss: Callable[[Library, Any, Sequence[Any]], Any] = mean_loss
    step: Callable[[Library, Any, Any, Any, Any], Any] = train_step
    parts: Callable[[Any], Sequence[Any]] = field(default=lambda model: [model])
    decoder: Callable[[Library, Size], Any] | None = None
    begin: Callable[[Size, dict[str, Array]], None] | None = None
    jax: Callable[[Size, Any, Sequence[Any]], Any] | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that it has."""
        return ("inference", "training", *(("decoding",) if self.decoder else ()))


def images(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw images (N, 3, H, W) and their classes."""
    side = size["image"]
    x = generator.standard_normal((batch, 3, side, side)).astype(np.float32)
    return x, generator.integers(0, size["classes"], batch)


def tokens(size: Size, batch: int, generator: np.random.Generator) -> Arrays:
    """Draw tokens (N, T) and the tokens that follow them."""
    drawn = generator.integers(0, size["words"], (batch, size["tokens"] + 1))
    return np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, 1:])
