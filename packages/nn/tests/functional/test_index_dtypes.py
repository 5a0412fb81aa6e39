"""Class numbers and rows of tables in dtypes of few bits, and below zero."""

from __future__ import annotations

import numpy as np
import pytest

import calor
from calor.nn import functional

NARROW = ("uint8", "int8", "uint16", "uint64")


def scores(count, classes):
    return calor.asarray(np.random.default_rng(0).normal(size=(count, classes)).astype(np.float32))


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss", "multi_margin_loss"])
def test_losses_take_class_numbers_of_any_dtype(loss, kind):
    x, numbers = scores(3, 300), np.array([0, 5, 100])
    function = getattr(functional, loss)
    want = function(x, calor.asarray(numbers)).item()
    assert function(x, calor.asarray(numbers.astype(kind))).item() == want


def test_an_ignored_class_that_a_dtype_holds_is_ignored():
    x = scores(3, 4)
    want = functional.cross_entropy(x[:2], calor.asarray([0, 1])).item()
    target = calor.asarray(np.array([0, 1, 255], np.uint8))
    got = functional.cross_entropy(x, target, ignore_index=255, label_smoothing=0.0).item()
    assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_one_hot_of_more_classes_than_the_dtype_counts(kind):
    indices = calor.asarray(np.array([1, 100], kind))
    made = functional.one_hot(indices, 400).numpy()
    assert np.argwhere(made).tolist() == [[0, 1], [1, 100]]


def test_filled_up_labels_of_more_classes_than_the_dtype_counts():
    labels = np.full(600, -1)
    labels[:2] = 5, 7
    x = scores(1, 600)[0]
    want = functional.multilabel_margin_loss(x, calor.asarray(labels)).item()
    narrow = calor.asarray(labels.astype(np.int8))
    assert functional.multilabel_margin_loss(x, narrow).item() == want


@pytest.mark.parametrize("row", [299, -1, 2])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int64"])
def test_the_padded_row_of_a_table_learns_nothing(kind, row):
    table = calor.asarray(np.ones((300, 2), np.float32), requires_grad=True)
    indices = calor.asarray(np.array([2, 3], kind))
    functional.embedding(indices, table, padding_index=row).sum().backward()
    counts = table.grad.numpy()[:, 0]
    assert counts[3] == 1
    assert counts[2] == (row != 2)


def test_an_index_from_the_end_is_the_padded_row():
    table = calor.asarray(np.ones((4, 2), np.float32), requires_grad=True)
    functional.embedding(calor.asarray([-1, 0]), table, padding_index=3).sum().backward()
    assert table.grad.numpy()[:, 0].tolist() == [1, 0, 0, 0]
    bags = calor.asarray([[-1, 0]])
    made = functional.embedding_bag(bags, table, mode="sum", padding_index=3)
    assert made.tolist() == [[1, 1]]
