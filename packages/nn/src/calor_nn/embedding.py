"""Rows of a learned table, by index."""

from __future__ import annotations

from typing import Any, Literal

from calor import Tensor
from calor_nn import functional
from calor_nn.init import Init, drawn, normal
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
    init : str or callable, optional
        How the weight is drawn: a name of `nn.init` such as "xavier_normal", or a function of a
        shape, `dtype` and `device`; as above if left out.
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
        init: Init = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        shape = (num_embeddings, embedding_dim)
        weight = drawn(init, normal, shape, dtype=dtype, device=device)
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


class EmbeddingBag(Module):
    """A learned table whose rows are taken by integer indices and combined in bags.

    `weight` is (num_embeddings, embedding_dim), drawn from the standard normal distribution.

    Parameters
    ----------
    num_embeddings : int
        The number of rows.
    embedding_dim : int
        The size of a row.
    mode : {"mean", "sum", "max"}
        How the rows of a bag are combined.
    include_last_offset : bool
        Whether offsets end with the number of indices.
    padding_idx : int, optional
        A row that is left out of bags and does not learn; none if left out.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> bags = nn.EmbeddingBag(10, 4)
    >>> bags(calor.asarray([1, 2, 4, 5]), calor.asarray([0, 3])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: Literal["mean", "sum", "max"] = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        weight = normal((num_embeddings, embedding_dim), dtype=dtype, device=device)
        if self.padding_idx is not None:
            weight[self.padding_idx] = 0.0
        self.weight = Parameter(weight)

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return the bags.

        Parameters
        ----------
        indices : Tensor
            Shape (B, L): one bag in each row; or (L,), which `offsets` divide.
        offsets : Tensor, optional
            Shape (B,): where each bag begins among indices of one axis.
        per_sample_weights : Tensor, optional
            A factor of each row, the shape of `indices`; for mode "sum" alone.

        Returns
        -------
        Tensor
            Shape (B, embedding_dim); the dtype of `weight`.

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        ArgumentError
            If factors are given for another mode than "sum".
        DTypeError
            If indices or offsets are not integers.
        ElementIndexError
            At the next look, if an index is out of range.
        """
        return functional.embedding_bag(
            indices,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_index=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the mode."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
