"""Datasets: samples by number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calor import Tensor
from calor.errors import ArgumentError, IndexingError, ShapeError
from calor.random import Generator
from calor_train.data.collate import default_collate
from calor_train.data.order import Indices, epoch_order, whole_seed


class SizedItems(Protocol):
    """Anything with a length and items by number: lists and the datasets of other libraries."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Dataset(ABC):
    """Samples by number; write ``__len__`` and ``__getitem__``.

    A loader with workers reads several samples at the same time, each from a thread of its own, so
    both must be safe for that. Override ``batch`` where many samples are read faster together.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int, /) -> Any: ...

    def samples(self, indices: Indices) -> list[Any]:
        """Return the samples of these numbers; an error says which one it came from."""
        found = []
        for index in indices.tolist():
            try:
                found.append(self[index])
            except Exception as error:
                error.add_note(f"while reading sample {index} of {type(self).__name__}")
                raise
        return found

    def batch(self, indices: Indices) -> Any:
        """Return the samples of these numbers as one batch of host arrays."""
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
    """Arrays of equal length; sample ``i`` is the tuple of their rows ``i``.

    Takes NumPy arrays, tensors, and nested sequences of numbers. Raises ShapeError when lengths
    differ.

    >>> from calor_train import ArrayDataset
    >>> data = ArrayDataset([[0.0, 1.0], [2.0, 3.0]], [0, 1])
    >>> len(data), data[1]
    (2, (array([2., 3.]), np.int64(1)))
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ArgumentError("ArrayDataset takes at least one array")
        self.arrays = tuple(x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in arrays)
        if any(x.ndim == 0 for x in self.arrays):
            raise ShapeError("ArrayDataset takes arrays of at least one axis, the samples' axis")
        if len({len(x) for x in self.arrays}) > 1:
            lengths = ", ".join(str(len(x)) for x in self.arrays)
            raise ShapeError(f"the arrays of an ArrayDataset have lengths {lengths}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int, /) -> tuple[Any, ...]:
        return tuple(x[index] for x in self.arrays)

    def batch(self, indices: Indices) -> tuple[npt.NDArray[Any], ...]:
        """Return the rows of these numbers of every array."""
        return tuple(x[indices] for x in self.arrays)


class Subset(Dataset):
    """The samples of a dataset that have the given numbers, in that order."""

    def __init__(self, dataset: Dataset | SizedItems, indices: Sequence[int] | Indices) -> None:
        self.dataset = as_dataset(dataset)
        self.indices = np.asarray(indices, np.int64)
        if self.indices.ndim != 1:
            raise ShapeError(f"indices have one axis, not shape {self.indices.shape}")
        count = len(self.dataset)
        if self.indices.size and not (-count <= self.indices.min() and self.indices.max() < count):
            raise IndexingError(f"an index is out of range for a dataset of {count} samples")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Any:
        return self.dataset[int(self.indices[index])]

    def samples(self, indices: Indices) -> list[Any]:
        """Return the samples of these numbers."""
        return self.dataset.samples(self.indices[indices])

    def batch(self, indices: Indices) -> Any:
        """Return the samples of these numbers as one batch of host arrays."""
        return self.dataset.batch(self.indices[indices])


def as_dataset(given: Dataset | SizedItems) -> Dataset:
    """Return the dataset itself, or one around anything with a length and items by number."""
    return given if isinstance(given, Dataset) else Items(given)


def random_split(
    dataset: Dataset | SizedItems,
    parts: Sequence[int] | Sequence[float],
    seed: int | Generator | None = None,
) -> list[Subset]:
    """Return disjoint random subsets that cover the dataset.

    ``parts`` are sizes that add up to its length, or fractions that add up to 1; what fractions
    leave over goes to the first parts, one sample each. ``seed`` as in :class:`DataLoader`.

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
        raise ArgumentError(f"parts are at least 0, not {parts}")
    if all(isinstance(part, int | np.integer) for part in parts):
        if sum(parts) != count:
            raise ArgumentError(f"parts add up to {sum(parts)}, the dataset has {count} samples")
        return [int(part) for part in parts]
    if abs(sum(parts) - 1.0) > 1e-6:
        raise ArgumentError(f"fractions add up to 1, not {sum(parts)}")
    sizes = [int(part * count) for part in parts]
    for i in range(count - sum(sizes)):
        sizes[i % len(sizes)] += 1
    return sizes
