"""Rows of a learned table, by index."""

from __future__ import annotations

from typing import Any

from calor import Tensor
from calor_nn import functional, init
from calor_nn.module import Module, Parameter


class Embedding(Module):
    """A learned table whose rows are taken by integer indices.

    `weight` is (num_embeddings, embedding_dim), drawn from the standard normal distribution.

    Parameters
    ----------
    num_embeddings : int
        The number of rows.
    embedding_dim : int
        The size of a row.
    padding_idx : int, optional
        A row that begins as zeros and does not learn; every row learns if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Examples
    --------
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
        """Return the rows at the indices.

        Parameters
        ----------
        indices : Tensor
            Shape (*N,); an integer dtype.

        Returns
        -------
        Tensor
            Shape (*N, embedding_dim); the dtype of `weight`.

        Raises
        ------
        DTypeError
            If the indices are not integers.
        ShapeError
            If `weight` has been replaced by a tensor without axes.
        ElementIndexError
            At the next look, if an index is out of range.
        """
        return functional.embedding(indices, self.weight, padding_index=self.padding_idx)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
