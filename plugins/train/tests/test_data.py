"""Datasets and the loader: order, workers, errors, resuming."""

import collections
import itertools
import threading
import time

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, IndexingError, ShapeError
from calor_train import (
    ArrayDataset,
    DataLoader,
    Dataset,
    Subset,
    default_collate,
    random_split,
)


def numbers(count=10):
    return ArrayDataset(np.arange(count), np.arange(count, dtype=np.float32) * 2)


def read(loader):
    """The sample numbers of each batch."""
    return [x.tolist() for x, *_ in loader]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def loader_threads():
    return [t for t in threading.enumerate() if t.name.startswith("calor-loader")]


class Slow(Dataset):
    """Samples whose reading takes differently long, so that threads overtake each other."""

    def __len__(self):
        return 12

    def __getitem__(self, index, /):
        time.sleep(0.001 * (index % 3))
        return (index, np.full(2, index, np.float32))


class Broken(Dataset):
    """A dataset with one sample that cannot be read."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 8

    def __getitem__(self, index, /):
        if index == 5:
            raise self.error
        return index


# Order.


@pytest.mark.parametrize(
    ("size", "drop", "lengths"),
    [
        (4, False, [4, 4, 2]),
        (4, True, [4, 4]),
        (5, True, [5, 5]),
        (20, False, [10]),
        (20, True, []),
    ],
)
def test_batches_in_order(size, drop, lengths):
    loader = DataLoader(numbers(), size, drop_last=drop)
    found = read(loader)
    assert [len(b) for b in found] == lengths
    assert len(loader) == len(lengths)
    assert flat(found) == list(range(sum(lengths)))


def test_batches_are_tensors_of_the_arrays_dtypes():
    x, y = next(iter(DataLoader(numbers(), 3)))
    assert (x.dtype, y.dtype) == (calor.int64, calor.float32)
    assert y.tolist() == [0.0, 2.0, 4.0]
    assert x.device == calor.asarray(0).device


def test_shuffling_gives_each_epoch_another_order_that_the_seed_decides():
    loader = DataLoader(numbers(), 4, shuffle=True, seed=3)
    epochs = [flat(read(loader)) for _ in range(3)]
    assert all(sorted(e) == list(range(10)) for e in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    again = DataLoader(numbers(), 4, shuffle=True, seed=3)
    assert [flat(read(again)) for _ in range(3)] == epochs
    other = DataLoader(numbers(), 4, shuffle=True, seed=4)
    assert flat(read(other)) != epochs[0]


def test_the_order_of_a_seed_never_changes():
    # Written down once: an order that changed with a version would break resuming.
    loader = DataLoader(numbers(), 10, shuffle=True, seed=0)
    assert read(loader) + read(loader) == [
        [0, 2, 9, 1, 8, 5, 4, 3, 6, 7],
        [5, 3, 7, 8, 2, 4, 1, 0, 6, 9],
    ]


def test_the_global_seed_decides_when_no_seed_is_given():
    def order():
        calor.random.seed(5)
        return read(DataLoader(numbers(), 10, shuffle=True))

    assert order() == order()
    generator = calor.random.Generator(5)
    assert read(DataLoader(numbers(), 10, shuffle=True, seed=generator)) == order()


def augment(batch, generator):
    index, x = batch
    return index, x + generator.integers(0, 1000, x.shape)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_change_nothing(workers):
    def everything(workers):
        loader = DataLoader(
            Slow(), 5, shuffle=True, seed=1, workers=workers, prefetch=1, transform=augment
        )
        return [[x.tolist(), y.tolist()] for _ in range(2) for x, y in loader]

    assert everything(workers) == everything(0)
    assert loader_threads() == []


def test_a_transform_gets_other_numbers_in_each_batch_and_epoch():
    loader = DataLoader(Slow(), 6, seed=1, transform=augment)
    drawn = [(y - x[:, None]).tolist() for _ in range(2) for x, y in loader]
    assert len({str(d) for d in drawn}) == 4


# Workers.


def test_workers_run_at_the_same_time():
    barrier = threading.Barrier(2, timeout=10)

    class Meeting(Slow):
        def __getitem__(self, index, /):
            barrier.wait()
            return index

    assert len(list(DataLoader(Meeting(), 1, workers=2))) == 12


def test_no_more_is_made_ahead_than_prefetch_allows():
    made = []

    def collate(samples):
        made.append(len(samples))
        return default_collate(samples)

    iterator = iter(DataLoader(Slow(), 1, workers=2, prefetch=2, collate=collate))
    next(iterator)
    time.sleep(0.1)
    assert len(made) <= 5
    iterator.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyError("gone"), KeyError), (StopIteration(), RuntimeError), (IndexError("5"), IndexError)],
)
def test_errors_surface_with_their_origin(workers, error, expected):
    loader = DataLoader(Broken(error), 2, workers=workers)
    found = []
    with pytest.raises(expected) as caught:
        found.extend(x.tolist() for x in loader)
    assert found == [[0, 1], [2, 3]]
    origin = caught.value if expected is not RuntimeError else caught.value.__cause__
    assert origin is error
    notes = "\n".join(origin.__notes__)
    assert "while reading sample 5 of Broken" in notes
    assert "in batch 2 of epoch 0" in notes
    assert caught.traceback[-1].name in ("__getitem__", "make")
    assert loader_threads() == []


def test_an_iteration_that_is_left_stops_its_workers():
    for batch in DataLoader(Slow(), 1, workers=3):
        assert batch is not None
        break
    deadline = time.monotonic() + 5
    while loader_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert loader_threads() == []


def test_close_ends_the_iteration():
    iterator = iter(DataLoader(Slow(), 1, workers=1))
    next(iterator)
    iterator.close()
    assert loader_threads() == []
    assert list(iterator) == []


# Resuming.


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 3, 4, 5, 8])
def test_a_loader_continues_where_another_stood(taken, workers):
    def fresh(seed):
        return DataLoader(
            numbers(),
            3,
            shuffle=True,
            seed=seed,
            workers=workers,
            transform=lambda b, g: augment(b, g),
        )

    def stream(loader, epochs):
        for _ in range(epochs):
            for x, y in loader:
                yield x.tolist(), y.tolist()

    whole = list(stream(fresh(1), 3))
    first = fresh(1)
    it = stream(first, 3)
    head = [next(it) for _ in range(taken)]
    saved = first.state_dict()
    it.close()
    resumed = fresh(2)
    resumed.load_state_dict(saved)
    assert resumed.state_dict() == saved
    tail = list(stream(resumed, 3 - taken // 4))
    assert head + tail == whole


def test_the_end_of_an_epoch_is_the_start_of_the_next():
    loader = DataLoader(numbers(), 5, seed=0)
    read(loader)
    assert loader.state_dict() == {"seed": 0, "epoch": 1, "position": 0}
    iterator = iter(loader)
    next(iterator)
    assert loader.state_dict() == {"seed": 0, "epoch": 1, "position": 1}
    # An epoch that was left is not continued: the next iteration is the next epoch.
    read(loader)
    assert loader.state_dict()["epoch"] == 3


def test_passes_from_before_a_state_do_not_move_the_position():
    loader = DataLoader(numbers(), 2, seed=0)
    before = iter(loader)
    next(before)
    saved = loader.state_dict()
    next(before)
    loader.load_state_dict(saved)
    next(before)
    assert loader.state_dict() == saved


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_changes_no_pass_from_before(workers):
    def noisy(batch, generator):
        x, y = batch
        return x, y + generator.random(len(y)).astype(np.float32)

    def loader():
        return DataLoader(
            numbers(), 2, seed=3, shuffle=True, transform=noisy, workers=workers, prefetch=1
        )

    whole = [y.tolist() for _, y in loader()]
    changed = loader()
    before = iter(changed)
    found = [next(before)[1].tolist()]
    changed.load_state_dict({"seed": 8, "epoch": 2, "position": 1})
    found += [y.tolist() for _, y in before]
    assert found == whole


# Datasets and collation.


def test_anything_with_a_length_and_items_is_a_dataset():
    assert read(DataLoader([(3, "a"), (4, "b")], 2)) == [[3, 4]]
    _, text = next(iter(DataLoader([(3, "a"), (4, "b")], 2)))
    assert text == ["a", "b"]


def test_array_dataset_takes_tensors_and_sequences():
    data = ArrayDataset(calor.asarray([1.0, 2.0]), [[1, 2], [3, 4]])
    assert data[1][0] == 2.0
    assert data[1][1].tolist() == [3, 4]


def test_subsets_of_subsets():
    inner = Subset(numbers(), [9, 8, 7, 6])
    outer = Subset(inner, [3, 0])
    assert outer[1] == (9, 18.0)
    assert read(DataLoader(outer, 2)) == [[6, 9]]
    assert read(DataLoader(outer, 2, collate=default_collate)) == [[6, 9]]


def test_random_split_covers_the_dataset():
    parts = random_split(numbers(), [3, 7], seed=0)
    found = [flat(read(DataLoader(p, 4))) for p in parts]
    assert [len(f) for f in found] == [3, 7]
    assert sorted(flat(found)) == list(range(10))
    again = random_split(numbers(), [3, 7], seed=0)
    assert [p.indices.tolist() for p in again] == found
    assert [len(p) for p in random_split(numbers(), [1 / 3, 1 / 3, 1 / 3])] == [4, 3, 3]


Named = collections.namedtuple("Named", ["x", "y"])

COLLATED = [
    ([1, 2], np.array([1, 2], np.int64)),
    ([True, False], np.array([True, False])),
    ([1.0, 2.0], np.array([1.0, 2.0], np.float32)),
    ([1j, 2.0 + 0j], np.array([1j, 2.0], np.complex64)),
    ([np.float64(1), np.float64(2)], np.array([1.0, 2.0])),
    ([np.uint8([1]), np.uint8([2])], np.array([[1], [2]], np.uint8)),
    ([calor.asarray([1.0]), calor.asarray([2.0])], np.array([[1.0], [2.0]], np.float32)),
]


@pytest.mark.parametrize(("samples", "expected"), COLLATED, ids=range(len(COLLATED)))
def test_collation_of_leaves(samples, expected):
    found = default_collate(samples)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_collation_of_containers():
    found = default_collate([{"a": (1, [2.0]), "n": Named(1, "x")}] * 2)
    assert found["a"][0].tolist() == [1, 1]
    assert type(found["a"]) is tuple
    assert found["a"][1][0].tolist() == [2.0, 2.0]
    assert found["n"].x.tolist() == [1, 1]
    assert found["n"].y == ["x", "x"]


ERRORS = [
    (lambda: DataLoader(numbers(), 0), ArgumentError, "batch_size must be at least 1"),
    (lambda: DataLoader(numbers(), workers=-1), ArgumentError, "workers must be at least 0"),
    (lambda: DataLoader(numbers(), prefetch=0), ArgumentError, "prefetch must be at least 1"),
    (lambda: DataLoader(numbers(), seed=-1), ArgumentError, "a seed must be at least 0"),
    (lambda: ArrayDataset(), ArgumentError, "at least one array"),
    (lambda: ArrayDataset(np.zeros(3), np.zeros(4)), ShapeError, "one length, not 3, 4"),
    (lambda: ArrayDataset(3.0), ShapeError, "at least one axis"),
    (lambda: Subset(numbers(), [10]), IndexingError, "out of range for a dataset of 10"),
    (lambda: Subset(numbers(), np.asarray([[1]])), ShapeError, "indices must have one axis"),
    (
        lambda: random_split(numbers(), [3, 3]),
        ArgumentError,
        "add up to the 10 samples of the dataset, not 6",
    ),
    (lambda: random_split(numbers(), [0.5, 0.4]), ArgumentError, "fractions must add up to 1"),
    (lambda: random_split(numbers(), [-1, 11]), ArgumentError, "parts must be at least 0"),
    (lambda: default_collate([np.zeros(2), np.zeros(3)]), ShapeError, r"\(2,\) and \(3,\)"),
    (lambda: default_collate([(1,), (1, 2)]), ArgumentError, "samples differ in length"),
    (
        lambda: DataLoader(numbers(), 5).load_state_dict({"seed": 0, "epoch": 0, "position": 3}),
        ArgumentError,
        "batch 3, this loader has 2 batches",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()
