"""Multi-head attention and sinusoidal positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn import functional, init
from calor_nn.cache import KVCache, RotaryEmbedding
from calor_nn.linear import Linear
from calor_nn.module import Module, Parameter


class MultiHeadAttention(Module):
    """Attention of several heads between learned projections.

    The parameters have PyTorch's names and shapes: `in_proj_weight` (3 · E, E) for query, key and
    value together, or `q_proj_weight` (E, E), `k_proj_weight` (E, kdim) and `v_proj_weight` (E,
    vdim) if the widths differ; `in_proj_bias` (3 · E,); and the layer `out_proj`. Masks are
    calor's: True where a query may attend to a key.

    Parameters
    ----------
    embed_dim : int
        E, the width of queries and outputs; a multiple of `num_heads`.
    num_heads : int
        The number of heads.
    dropout : float
        Probability with which a weight is set to 0 in training, in [0, 1).
    bias : bool
        Whether the projections have biases.
    kdim : int, optional
        The width of keys; E if left out.
    vdim : int, optional
        The width of values; E if left out.
    batch_first : bool
        Inputs and outputs are (N, L, E) in place of (L, N, E).
    rotary : RotaryEmbedding, optional
        Turns queries and keys by their positions; nothing is turned if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `embed_dim` does not divide into `num_heads`.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.MultiHeadAttention(8, 2, batch_first=True)
    >>> layer(calor.ones((1, 5, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        rotary: RotaryEmbedding | None = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiHeadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.rotary = rotary
        options: dict[str, Any] = {"dtype": dtype, "device": device}
        widths = (embed_dim, kdim or embed_dim, vdim or embed_dim)
        self.joint = widths == (embed_dim,) * 3
        if self.joint:
            drawn = init.xavier_uniform((3 * embed_dim, embed_dim), **options)
            self.in_proj_weight = Parameter(drawn)
        else:
            for name, width in zip("qkv", widths, strict=True):
                drawn = init.xavier_uniform((embed_dim, width), **options)
                setattr(self, f"{name}_proj_weight", Parameter(drawn))
        self.in_proj_bias = None
        if bias:
            self.in_proj_bias = Parameter(init.zeros((3 * embed_dim,), **options))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **options)
        if self.out_proj.bias is not None:
            self.out_proj.bias = Parameter(init.zeros((embed_dim,), **options))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        return_weights: bool = False,
        cache: KVCache | None = None,
    ) -> Any:
        """Return the attended values, and the weights on request.

        Parameters
        ----------
        query : Tensor
            Shape (L, N, E), (N, L, E) with `batch_first`, or (L, E).
        key : Tensor, optional
            Shape (S, N, kdim) or alike; the query if left out.
        value : Tensor, optional
            Shape (S, N, vdim) or alike; the key if left out.
        mask : Tensor, optional
            Bool, broadcast to (N, heads, L, S): True where a query may attend to a key.
        key_mask : Tensor, optional
            Bool, shape (N, S): True for keys that may be attended to.
        bias : Tensor, optional
            Broadcast to (N, heads, L, S): added to the scaled scores.
        causal : bool
            Also hide key j from query i if j > i.
        return_weights : bool
            Return the weights too.
        cache : KVCache, optional
            Keys and values of earlier places: those of `key` and `value` are added, and S is the
            room of the cache. A query attends to the places before its own, and to its own.

        Returns
        -------
        Tensor or tuple of Tensor
            The attended values, of the query's shape. With `return_weights` the pair (values,
            weights): the weights are (N, heads, L, S), before dropout.

        Raises
        ------
        ShapeError
            If the inputs do not all have 3 axes, or 2 without a batch, or a mask does not
            broadcast.
        ArgumentError
            If `dropout` is outside [0, 1).
        DTypeError
            If a mask is not bool.
        """
        key = query if key is None else key
        value = key if value is None else value
        ndim = query.ndim
        if ndim not in (2, 3) or key.ndim != ndim or value.ndim != ndim:
            raise ShapeError(
                f"MultiHeadAttention: query {query.shape}, key {key.shape} and value "
                f"{value.shape} must all have 3 axes, or 2 without the batch"
            )
        rows = [self._batch_first(x) for x in (query, key, value)]
        q, k, v = (self._heads(x) for x in self._projected(*rows))
        if self.rotary is not None:
            positions = None if cache is None else cache.positions(k.shape[2])
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        if cache is not None:
            k, v, seen = cache.update(k, v)
            mask, causal = (seen if mask is None else mask & seen), False
        if key_mask is not None:
            hidden = calor.reshape(key_mask, (-1, 1, 1, k.shape[-2]))
            mask = hidden if mask is None else mask & hidden
        out = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            mask=mask,
            bias=bias,
            causal=causal,
            dropout=self.dropout if self.training else 0.0,
        )
        n, _, length, _ = out.shape
        merged = calor.reshape(calor.swapaxes(out, 1, 2), (n, length, self.embed_dim))
        made = self._as_given(self.out_proj(merged), ndim)
        if not return_weights:
            return made
        weights = functional.attention_weights(q, k, mask=mask, bias=bias, causal=causal)
        return made, (weights if ndim == 3 else calor.squeeze(weights, axis=0))

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return calor.expand_dims(x, 0)
        return x if self.batch_first else calor.swapaxes(x, 0, 1)

    def _as_given(self, x: Tensor, ndim: int) -> Tensor:
        if ndim == 2:
            return calor.squeeze(x, axis=0)
        return x if self.batch_first else calor.swapaxes(x, 0, 1)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias = self.in_proj_bias
        if self.joint and query is key and key is value:
            return calor.chunk(functional.linear(query, self.in_proj_weight, bias), 3, axis=-1)
        if self.joint:
            weights: Any = calor.chunk(self.in_proj_weight, 3)
        else:
            weights = [getattr(self, f"{name}_proj_weight") for name in "qkv"]
        biases: Any = (None,) * 3 if bias is None else calor.chunk(bias, 3)
        return tuple(
            functional.linear(x, w, b)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )

    def _heads(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        split = calor.reshape(x, (n, length, self.num_heads, self.embed_dim // self.num_heads))
        return calor.swapaxes(split, 1, 2)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.embed_dim}, {self.num_heads}"


class PositionalEncoding(Module):
    """A layer that adds sines and cosines of geometric wavelengths to a sequence.

    The encodings are the buffer `table` (max_len, d_model), which is no part of state dicts.

    Parameters
    ----------
    d_model : int
        The size of the last axis.
    max_len : int
        The longest sequence.
    dropout : float
        Probability with which an element of the sum is set to 0 in training.
    batch_first : bool
        Inputs are (N, L, d_model); otherwise (L, N, d_model).
    dtype : DType or str, optional
        The dtype of the encodings; float32 by default.
    device : Device or str, optional
        Where they live; the default device if left out.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.PositionalEncoding(4)(calor.zeros((1, 2, 4))).tolist()[0][0]
    [0.0, 1.0, 0.0, 1.0]
    """

    table: Tensor

    def __init__(
        self,
        d_model: int,
        max_len: int = 5000,
        dropout: float = 0.0,
        batch_first: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.dropout = dropout
        self.batch_first = batch_first
        rate = np.exp(np.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angle = np.arange(max_len)[:, None] * rate
        table = np.empty((max_len, d_model))
        table[:, 0::2] = np.sin(angle)
        table[:, 1::2] = np.cos(angle)[:, : d_model // 2]
        known = calor.float32 if dtype is None else dtype
        # The table follows from the arguments, so state dicts leave it out.
        made = calor.asarray(table, dtype=known, device=device)
        self.register_buffer("table", made, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x plus the encodings of its positions.

        Parameters
        ----------
        x : Tensor
            Shape (N, L, d_model) or (L, N, d_model), with L at most `max_len`.

        Returns
        -------
        Tensor
            The shape of `x`.

        Raises
        ------
        ShapeError
            If `x` has another number of axes or features, or is longer than `max_len`.
        ArgumentError
            If `dropout` is outside [0, 1].
        """
        length = x.shape[1 if self.batch_first else 0]
        if x.ndim != 3 or length > self.table.shape[0] or x.shape[-1] != self.table.shape[1]:
            raise ShapeError(
                f"PositionalEncoding: shape {x.shape} does not fit {self.table.shape[0]} positions "
                f"of {self.table.shape[1]} features; pass 3 axes, or raise max_len"
            )
        places = self.table[:length]
        if not self.batch_first:
            places = calor.expand_dims(places, 1)
        return functional.dropout(x + places, self.dropout, training=self.training)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.table.shape[1]}, max_len={self.table.shape[0]}"
