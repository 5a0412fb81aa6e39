"""The data loader: batches in a known order, made ahead of time by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from calor.backends.device import Device
from calor.device_selection import as_device, current_device
from calor.errors import ArgumentError
from calor.random import Generator
from calor_train.data.collate import to_tensors
from calor_train.data.dataset import Dataset, SizedItems, as_dataset
from calor_train.data.order import Indices, batch_generator, epoch_order, whole_seed

Collate = Callable[[list[Any]], Any]
Transform = Callable[[Any, np.random.Generator], Any]


class DataLoader:
    """Batches of a dataset as tensors on a device; each iteration is one epoch.

    An error in a worker is raised where its batch is requested, and says which sample it came from.
    `state_dict()` holds the position within the epoch, and a loader that loads it starts there.

    Parameters
    ----------
    dataset : Dataset or sized collection
        The samples: a :class:`Dataset`, or anything with a length and items by number.
    batch_size : int
        Samples in a batch; the last batch holds the rest.
    shuffle : bool
        Draw another random order in each epoch. It depends on `seed` and the number of the epoch
        alone, not on workers or the machine.
    drop_last : bool
        Leave out the last batch if it is smaller.
    workers : int
        Threads that make batches ahead of time; 0 makes each batch on request.
    prefetch : int
        Batches for each worker that are kept ready.
    seed : int or Generator, optional
        The seed of the order and of `transform`; drawn from calor's global generator if left out,
        so that `calor.random.seed` decides.
    collate : callable, optional
        A function from a list of samples to a batch; :func:`default_collate` if left out.
    transform : callable, optional
        Augmentation `f(batch, generator) -> batch` on host arrays. Its `numpy.random.Generator`
        depends on the seed, the epoch and the batch alone.
    device : Device or str, optional
        Where the tensors are made; the device that is current when the iteration starts if left
        out.

    Raises
    ------
    ArgumentError
        If a number is out of its range or not a whole number.

    Examples
    --------
    >>> from calor_train import ArrayDataset, DataLoader
    >>> loader = DataLoader(ArrayDataset([[1.0], [2.0], [3.0]], [0, 1, 0]), batch_size=2)
    >>> [(x.shape, y.tolist()) for x, y in loader]
    [((2, 1), [0, 1]), ((1, 1), [0])]
    """

    def __init__(
        self,
        dataset: Dataset | SizedItems,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        workers: int = 0,
        prefetch: int = 2,
        seed: int | Generator | None = None,
        collate: Collate | None = None,
        transform: Transform | None = None,
        device: Any = None,
    ) -> None:
        least: int
        number: Any
        for name, number, least in (
            ("batch_size", batch_size, 1),
            ("workers", workers, 0),
            ("prefetch", prefetch, 1),
        ):
            if not isinstance(number, int) or number < least:
                raise ArgumentError(
                    f"{name} must be a whole number of at least {least}, not {number!r}"
                )
        self.dataset = as_dataset(dataset)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.workers = workers
        self.prefetch = prefetch
        random = shuffle or transform is not None or seed is not None
        self.seed = whole_seed(seed) if random else 0
        self.collate = collate
        self.transform = transform
        self.device = None if device is None else as_device(device)
        # The epoch now under way and how many of its batches were handed out.
        self.epoch = 0
        self.position = 0
        self._continues = True
        # The number of the last pass, which alone moves the position. A loaded state takes a number
        # too, so that passes from before it move nothing.
        self.passes = 0

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> BatchIterator:
        if not self._continues:
            self.epoch, self.position = self.epoch + 1, 0
        self._continues = False
        self.passes += 1
        return BatchIterator(self)

    def order(self, epoch: int) -> Indices:
        """Return the numbers of the samples in the order of an epoch.

        Parameters
        ----------
        epoch : int
            The epoch, counted from 0.

        Returns
        -------
        ndarray
            A permutation, int64 (N,).
        """
        if self.shuffle:
            return epoch_order(len(self.dataset), self.seed, epoch)
        return np.arange(len(self.dataset), dtype=np.int64)

    def make(
        self, indices: Indices, epoch: int, number: int, device: Device, seed: int | None = None
    ) -> Any:
        """Return one batch; a worker calls it in its thread.

        Parameters
        ----------
        indices : ndarray
            The numbers of the samples, int64.
        epoch : int
            The epoch, counted from 0.
        number : int
            The batch, counted from 0.
        device : Device
            Where the tensors are made.
        seed : int, optional
            The seed of `transform`; the loader's if left out.

        Returns
        -------
        Any
            Tensors in the structure of a sample.

        Raises
        ------
        RuntimeError
            If reading a sample raised StopIteration. Any other exception passes through with a note
            that names the batch.
        """
        try:
            if self.collate is None:
                batch = self.dataset.batch(indices)
            else:
                batch = self.collate(self.dataset.samples(indices))
            if self.transform is not None:
                seed = self.seed if seed is None else seed
                batch = self.transform(batch, batch_generator(seed, epoch, number))
            return to_tensors(batch, device)
        except Exception as error:
            error.add_note(f"in batch {number} of epoch {epoch}, made by the data loader")
            if isinstance(error, StopIteration):
                # Raised from an iterator, it would silently end the epoch.
                raise RuntimeError("reading a sample raised StopIteration") from error
            raise

    def state_dict(self) -> dict[str, int]:
        """Return the seed, the epoch, and how many of its batches were handed out.

        Returns
        -------
        dict of str to int
            The keys "seed", "epoch" and "position".
        """
        epoch, position = self.epoch, self.position
        if not self._continues and position == len(self):
            epoch, position = epoch + 1, 0
        return {"seed": self.seed, "epoch": epoch, "position": position}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration start where another loader stood.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` of that loader returned.

        Raises
        ------
        ArgumentError
            If the position exceeds the number of batches.
        """
        position = int(state_dict["position"])
        if not 0 <= position <= len(self):
            raise ArgumentError(
                f"the saved position is batch {position}, this loader has {len(self)} batches; "
                f"use the dataset and the batch size that it was saved with"
            )
        self.seed = int(state_dict["seed"])
        self.epoch = int(state_dict["epoch"])
        self.position = position
        self._continues = True
        self.passes += 1


class BatchIterator(Iterator[Any]):
    """One pass over an epoch; ``close()`` stops its workers, as does the end of the pass."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        # A state that the loader loads later is of later passes.
        self.epoch = loader.epoch
        self.seed = loader.seed
        self.number = loader.passes
        self.next_number = loader.position
        self.device = loader.device or current_device()
        order = loader.order(self.epoch)
        size = loader.batch_size
        self.parts = [order[i * size : (i + 1) * size] for i in range(len(loader))]
        self.ready: deque[Future[Any]] = deque()
        self.submitted = self.next_number
        self.pool: ThreadPoolExecutor | None = None
        if loader.workers and self.next_number < len(self.parts):
            self.pool = ThreadPoolExecutor(loader.workers, thread_name_prefix="calor-loader")
            self._fill()

    def _fill(self) -> None:
        assert self.pool is not None
        limit = self.loader.workers * self.loader.prefetch
        while len(self.ready) < limit and self.submitted < len(self.parts):
            number = self.submitted
            self.ready.append(self.pool.submit(self._make, number))
            self.submitted += 1

    def _make(self, number: int) -> Any:
        return self.loader.make(self.parts[number], self.epoch, number, self.device, self.seed)

    def __next__(self) -> Any:
        number = self.next_number
        if number >= len(self.parts):
            self.close()
            raise StopIteration
        try:
            if self.pool is None:
                batch = self._make(number)
            else:
                batch = self.ready.popleft().result()
                self._fill()
        except BaseException:
            self.close()
            raise
        self.next_number = number + 1
        if self.loader.passes == self.number:
            self.loader.position = self.next_number
        return batch

    def close(self) -> None:
        """Stop the workers and wait for what they are doing now; the pass is over."""
        self.next_number = len(self.parts)
        self.ready.clear()
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = None

    def __del__(self) -> None:
        # The last reference may be dropped in a worker's thread, which cannot wait for itself.
        pool = getattr(self, "pool", None)
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
