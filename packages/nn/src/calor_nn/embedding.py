"""Rows of a learned table, by index."""

from __future__ import annotations

from typing import Any

from calor import Tensor
from calor_nn import functional, init
from calor_nn.module import Module, Parameter


class Embedding(Module):
    """Returns the rows of ``weight`` (num_embeddings, embedding_dim) at integer indices.

    The table is normal, variance 1. The row ``padding_idx`` begins as zeros and does not learn.

    >>> import calor
    >>> from calor import nn
    >>> nn.Embedding(10, 4)(calor.asarray([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        weight = init.normal((num_embeddings, embedding_dim), dtype=dtype, device=device)
        if self.padding_idx is not None:
            weight[self.padding_idx] = 0.0
        self.weight = Parameter(weight)

    def forward(self, indices: Tensor) -> Tensor:
        """Return (*N, embedding_dim) for indices (*N)."""
        return functional.embedding(indices, self.weight, padding_index=self.padding_idx)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
