"""Keys and values of earlier places, and rotary positions: what decoding needs beside attention.

Requirements: a step of decoding under jit writes its rows into the memory of the cache, moves no
other row, and reads no number back. The length is a tensor, so one trace serves all places.
"""

from __future__ import annotations

from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn import functional
from calor_nn.module import Module


class KVCache(Module):
    """Keys and values of the places that attention has seen, which it is called with.

    `nn.MultiHeadAttention(...)(x, cache=cache)` adds the places of `x` and attends to all so far,
    none later than its own. No gradient passes through the cache. Its tensors are buffers that
    state dicts leave out. Decode inside `calor.no_grad()`: a compiled step then writes to the rows
    where they are, while one with gradients keeps those of before for its backward pass, and writes
    to fresh memory.

    Parameters
    ----------
    batch_size : int
        N, the number of sequences.
    num_heads : int
        K, the number of key heads.
    max_len : int
        S, the most places.
    head_dim : int
        E, the width of a key.
    value_dim : int, optional
        V, the width of a value; E if left out.
    dtype : DType or str, optional
        The dtype of the rows; float32 by default.
    device : Device or str, optional
        Where they live; the default device if left out.

    Raises
    ------
    ArgumentError
        If a size is below 1.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.MultiHeadAttention(8, 2, batch_first=True)
    >>> cache = nn.KVCache(1, 2, 16, 4)
    >>> step = calor.jit(lambda layer, cache, x: layer(x, cache=cache))
    >>> _ = step(layer, cache, calor.ones((1, 3, 8)))
    >>> step(layer, cache, calor.ones((1, 1, 8))).shape, cache.length.item()
    ((1, 1, 8), 4)
    """

    keys: Tensor
    values: Tensor
    place: Tensor

    def __init__(
        self,
        batch_size: int,
        num_heads: int,
        max_len: int,
        head_dim: int,
        value_dim: int | None = None,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        value_dim = head_dim if value_dim is None else value_dim
        lead = (batch_size, num_heads, max_len)
        options: dict[str, Any] = {
            "dtype": calor.float32 if dtype is None else dtype,
            "device": device,
        }
        self.register_buffer("keys", calor.zeros((*lead, head_dim), **options), persistent=False)
        self.register_buffer("values", calor.zeros((*lead, value_dim), **options), persistent=False)
        # Where the next rows are written, by axis: the third number is the length.
        place = calor.zeros((4,), dtype=calor.int64, device=device)
        self.register_buffer("place", place, persistent=False)

    @property
    def length(self) -> Tensor:
        """The number of places seen, an int64 tensor of shape ()."""
        return self.place[2]

    @property
    def max_len(self) -> int:
        """The most places."""
        return int(self.keys.shape[2])

    def positions(self, count: int) -> Tensor:
        """Return the positions of the next places, which are checked on the device.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        Tensor
            Shape (count,), int64.

        Raises
        ------
        ElementIndexError
            At the next look, if the cache has no room for so many.
        """
        device = self.place.device
        among = calor.arange(self.max_len, device=device)
        # Reading the positions among all of them tells of one that is out of range.
        return calor.take(among, self.place[2:3] + calor.arange(count, device=device))

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Add places, and return all keys and values with a mask.

        Parameters
        ----------
        keys : Tensor
            Shape (N, K, L, E): the keys of the next L places.
        values : Tensor
            Shape (N, K, L, V): their values.

        Returns
        -------
        keys : Tensor
            Shape (N, K, S, E).
        values : Tensor
            Shape (N, K, S, V).
        mask : Tensor
            Shape (1, 1, L, S), bool: True where a place was seen before each of the new ones, or is
            it.

        Raises
        ------
        ShapeError
            If the rows do not fit the cache.
        ElementIndexError
            At the next look, if the cache is full.

        Examples
        --------
        >>> import calor
        >>> from calor import nn
        >>> cache = nn.KVCache(1, 1, 3, 1)
        >>> rows = calor.ones((1, 1, 2, 1))
        >>> cache.update(rows, rows)[2].tolist()
        [[[[True, False, False], [True, True, False]]]]
        """
        for held, new in ((self.keys, keys), (self.values, values)):
            fits = (
                new.ndim == 4 and held.shape[:2] == new.shape[:2] and held.shape[3] == new.shape[3]
            )
            if not fits or new.shape[2] != keys.shape[2] or new.shape[2] > self.max_len:
                raise ShapeError(
                    f"KVCache: rows of shape {new.shape} do not fit a cache {held.shape}; it must "
                    f"have their batch, heads and width, and room for their places"
                )
        count = keys.shape[2]
        positions = self.positions(count)
        place = self.place.copy()
        with calor.no_grad():
            for held, new in ((self.keys, keys), (self.values, values)):
                held[...] = calor.dynamic_update_slice(held, new.detach().astype(held.dtype), place)
            onward = calor.asarray([0, 0, count, 0], dtype=calor.int64, device=place.device)
            self.place[...] = place + onward
        among = calor.arange(self.max_len, device=place.device)
        seen = among <= calor.expand_dims(positions, -1)
        return self.keys, self.values, calor.reshape(seen, (1, 1, count, self.max_len))

    def reset(self) -> None:
        """Forget all places; the memory stays."""
        with calor.no_grad():
            self.place[...] = calor.zeros_like(self.place)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return ", ".join(map(str, self.keys.shape))


class RotaryEmbedding(Module):
    """A layer that turns pairs of features by angles that grow with the position.

    Parameters
    ----------
    dim : int
        How many features are turned, from the first on; even. The others stay.
    base : float
        The wavelengths grow from 2π to 2π · base.
    interleaved : bool
        Whether a pair is two neighbours; otherwise its halves are dim / 2 apart.

    Raises
    ------
    ArgumentError
        If `dim` is not even or below 2.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.RotaryEmbedding(2)(calor.asarray([[1.0, 0.0]]), calor.asarray([0])).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        if dim < 2 or dim % 2:
            raise ArgumentError(f"RotaryEmbedding: dim is {dim}; give an even number above 0")
        self.dim = dim
        self.base = float(base)
        self.interleaved = interleaved

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return x with its features turned.

        Parameters
        ----------
        x : Tensor
            Shape (*N, L, D): queries or keys; real.
        positions : Tensor, optional
            Shape (L,), or any that broadcasts to (*N, L): the positions; 0, 1, … if left out.

        Returns
        -------
        Tensor
            The shape and dtype of `x`.

        Raises
        ------
        ShapeError
            If `x` has fewer than two axes, or fewer features than are turned.
        ArgumentError
            If `dim` was changed to a number that is not even.
        """
        return functional.rotary_embedding(
            x, positions, dim=self.dim, base=self.base, interleaved=self.interleaved
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"
