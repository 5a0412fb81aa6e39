"""Datasets: samples by number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from calor import Tensor
from calor.errors import ArgumentError, IndexingError, ShapeError
from calor.random import Generator
from calor_train.data.collate import default_collate
from calor_train.data.order import Indices, epoch_order, whole_seed


@runtime_checkable
class SizedItems(Protocol):
    """Anything with a length and items by number: lists and the datasets of other libraries."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Dataset(ABC):
    """Samples by number; write `__len__` and `__getitem__`.

    A loader with workers reads several samples at the same time, each in a thread of its own, so
    both must be thread-safe. Override `batch` if many samples are read faster together.

    Examples
    --------
    >>> from calor_train import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> Squares().batch(np.asarray([1, 2]))
    (array([1, 2]), array([1, 4]))
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int, /) -> Any: ...

    def samples(self, indices: Indices) -> list[Any]:
        """Return several samples; an error says which one it came from.

        Parameters
        ----------
        indices : ndarray
            The numbers of the samples, int64 (N,).

        Returns
        -------
        list
            The samples in this order.
        """
        found = []
        for index in indices.tolist():
            try:
                found.append(self[index])
            except Exception as error:
                error.add_note(f"while reading sample {index} of {type(self).__name__}")
                raise
        return found

    def batch(self, indices: Indices) -> Any:
        """Return several samples as one batch on the host.

        Parameters
        ----------
        indices : ndarray
            The numbers of the samples, int64 (N,).

        Returns
        -------
        Any
            Arrays of shape (N, *S) in the structure of a sample; see :func:`default_collate`.

        Raises
        ------
        ShapeError
            If corresponding arrays differ in shape.
        ArgumentError
            If corresponding tuples or lists differ in length.
        """
        return default_collate(self.samples(indices))


class Items(Dataset):
    """A dataset around anything with a length and items by number."""

    def __init__(self, items: SizedItems) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> Any:
        return self.items[index]


class ArrayDataset(Dataset):
    """Arrays of equal length; sample i is the tuple of their rows i.

    Parameters
    ----------
    *arrays : ndarray, Tensor or sequence
        Arrays of shape (N, *S), or nested sequences of numbers. They are kept on the host.

    Raises
    ------
    ArgumentError
        If there is no array.
    ShapeError
        If an array has no axes, or the lengths differ.

    Examples
    --------
    >>> from calor_train import ArrayDataset
    >>> data = ArrayDataset([[0.0, 1.0], [2.0, 3.0]], [0, 1])
    >>> len(data), data[1]
    (2, (array([2., 3.]), np.int64(1)))
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ArgumentError("ArrayDataset needs at least one array")
        self.arrays = tuple(x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in arrays)
        if any(x.ndim == 0 for x in self.arrays):
            raise ShapeError(
                "ArrayDataset: an array must have at least one axis, that of the samples"
            )
        if len({len(x) for x in self.arrays}) > 1:
            lengths = ", ".join(str(len(x)) for x in self.arrays)
            raise ShapeError(f"ArrayDataset: arrays must have one length, not {lengths}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int, /) -> tuple[Any, ...]:
        return tuple(x[index] for x in self.arrays)

    def batch(self, indices: Indices) -> tuple[npt.NDArray[Any], ...]:
        """Return rows of every array.

        Parameters
        ----------
        indices : ndarray
            The numbers of the rows, int64 (N,).

        Returns
        -------
        tuple of ndarray
            Arrays of shape (N, *S) in their own dtypes.
        """
        return tuple(x[indices] for x in self.arrays)


class Subset(Dataset):
    """Some samples of a dataset, in a given order.

    Parameters
    ----------
    dataset : Dataset or sized collection
        The dataset.
    indices : sequence of int or ndarray
        The numbers of the samples, shape (N,); negative ones count from the end.

    Raises
    ------
    ShapeError
        If `indices` does not have one axis.
    IndexingError
        If an index is out of range.

    Examples
    --------
    >>> from calor_train import Subset
    >>> list(Subset(range(10), [3, 1]).samples(np.asarray([0, 1])))
    [3, 1]
    """

    def __init__(self, dataset: Dataset | SizedItems, indices: Sequence[int] | Indices) -> None:
        self.dataset = as_dataset(dataset)
        self.indices = np.asarray(indices, np.int64)
        if self.indices.ndim != 1:
            raise ShapeError(f"indices must have one axis, not shape {self.indices.shape}")
        count = len(self.dataset)
        if self.indices.size and not (-count <= self.indices.min() and self.indices.max() < count):
            raise IndexingError(f"an index is out of range for a dataset of {count} samples")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Any:
        return self.dataset[int(self.indices[index])]

    def samples(self, indices: Indices) -> list[Any]:
        return self.dataset.samples(self.indices[indices])

    def batch(self, indices: Indices) -> Any:
        return self.dataset.batch(self.indices[indices])


def as_dataset(given: Dataset | SizedItems) -> Dataset:
    """Return the dataset itself, or one around anything with a length and items by number."""
    return given if isinstance(given, Dataset) else Items(given)


def random_split(  # numpydoc ignore=RS01
    dataset: Dataset | SizedItems,
    parts: Sequence[int] | Sequence[float],
    seed: int | Generator | None = None,
) -> list[Subset]:
    """Return disjoint random subsets that cover a dataset.

    Parameters
    ----------
    dataset : Dataset or sized collection
        The dataset.
    parts : sequence of int or sequence of float
        Sizes that add up to the number of samples, or fractions that add up to 1. What rounding
        leaves over goes to the first parts, one sample each.
    seed : int or Generator, optional
        The seed of the order; drawn from calor's global generator if left out.

    Returns
    -------
    list of Subset
        One subset for each part.

    Raises
    ------
    ArgumentError
        If a part is negative, the parts do not add up, or the seed is negative.

    Examples
    --------
    >>> from calor_train import random_split
    >>> [len(part) for part in random_split(range(10), [0.75, 0.25], seed=0)]
    [8, 2]
    """
    given = as_dataset(dataset)
    count = len(given)
    sizes = _sizes(list(parts), count)
    order = epoch_order(count, whole_seed(seed), 0)
    stops = np.cumsum(sizes)
    return [Subset(given, order[a - n : a]) for a, n in zip(stops, sizes, strict=True)]


def _sizes(parts: list[Any], count: int) -> list[int]:
    if any(not part >= 0 for part in parts):
        raise ArgumentError(f"parts must be at least 0, not {parts}")
    if all(isinstance(part, int | np.integer) for part in parts):
        if sum(parts) != count:
            raise ArgumentError(
                f"parts must add up to the {count} samples of the dataset, not {sum(parts)}"
            )
        return [int(part) for part in parts]
    if abs(sum(parts) - 1.0) > 1e-6:
        raise ArgumentError(f"fractions must add up to 1, not {sum(parts)}")
    sizes = [int(part * count) for part in parts]
    for i in range(count - sum(sizes)):
        sizes[i % len(sizes)] += 1
    return sizes
