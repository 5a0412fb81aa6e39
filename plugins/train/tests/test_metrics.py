"""Metrics beside NumPy and scikit-learn's definitions, inside and outside jit."""

import math

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, ShapeError
from calor_train import Accuracy, ConfusionMatrix, Loss, Mean, RunningMean, TopK

CLASSES = 5
RNG = np.random.default_rng(0)
# The last batch is smaller, so a mean of batch means would be wrong.
BATCHES = [
    (RNG.normal(size=(n, CLASSES)).astype(np.float32), RNG.integers(0, CLASSES, n), float(n))
    for n in (8, 8, 3)
]
OUTPUTS = np.concatenate([b[0] for b in BATCHES])
TARGETS = np.concatenate([b[1] for b in BATCHES])


def confusion():
    counts = np.zeros((CLASSES, CLASSES), np.int32)
    np.add.at(counts, (TARGETS, OUTPUTS.argmax(1)), 1)
    return counts


def topk(k):
    best = np.argsort(-OUTPUTS, axis=1)[:, :k]
    return np.mean((best == TARGETS[:, None]).any(1))


def first_output(outputs, targets):
    return calor.mean(outputs[:, 0])


METRICS = [
    (Loss, (8 * 8 + 8 * 8 + 3 * 3) / 19),
    (lambda: Mean("first", first_output), OUTPUTS[:, 0].mean()),
    (lambda: RunningMean("recent", decay=0.5), (8 * 0.125 + 8 * 0.25 + 3 * 0.5) / 0.875),
    (
        lambda: RunningMean("recent", first_output, decay=0.0),
        BATCHES[-1][0][:, 0].mean(),
    ),
    (Accuracy, np.mean(OUTPUTS.argmax(1) == TARGETS)),
    (lambda: TopK(1), np.mean(OUTPUTS.argmax(1) == TARGETS)),
    (lambda: TopK(3), topk(3)),
    (lambda: TopK(5), 1.0),
    (lambda: ConfusionMatrix(CLASSES), confusion()),
]


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("make", "expected"), METRICS)
def test_values(make, expected, jitted):
    metric = make()

    def step(metric, outputs, targets, loss):
        metric.update(outputs, targets, loss)

    update = calor.jit(step) if jitted else step
    for _ in range(2):
        metric.reset()
        for outputs, targets, loss in BATCHES:
            update(metric, *map(calor.asarray, (outputs, targets, loss)))
        np.testing.assert_allclose(metric.compute(), expected, rtol=1e-5)
    if jitted:
        assert update.trace_count == 2


def test_nothing_measured_is_nan():
    assert all(math.isnan(m.compute()) for m in (Loss(), Accuracy(), TopK(2), RunningMean("r")))


def test_accuracy_of_one_score_per_sample():
    scores = calor.asarray([-1.0, 0.7, 0.2, 0.9])
    targets = calor.asarray([0, 1, 0, 0])
    for threshold, expected in ((0.0, 0.5), (0.5, 0.75)):
        metric = Accuracy(threshold=threshold)
        metric.update(scores, targets, calor.asarray(0.0))
        assert metric.compute() == expected


def test_pictures_of_classes():
    outputs = calor.asarray(RNG.normal(size=(2, 3, 4, 4)).astype(np.float32))
    targets = calor.argmax(outputs, axis=1)
    for metric in (Accuracy(), TopK(2)):
        metric.update(outputs, targets, calor.asarray(0.0))
        assert metric.compute() == 1.0
    matrix = ConfusionMatrix(3)
    matrix.update(outputs, targets, calor.asarray(0.0))
    assert matrix.compute().sum() == np.trace(matrix.compute()) == 32


def test_nan_scores_are_never_right():
    scores, targets = calor.full((2, 3), math.nan), calor.asarray([0, 1])
    metric = TopK(2)
    metric.update(scores, targets, calor.asarray(0.0))
    assert metric.compute() == 0.0


def test_counts_are_exact_beyond_float32():
    metric = Accuracy()
    metric.state["right"] += 2**24
    metric.update(calor.asarray([[1.0, 0.0]]), calor.asarray([0]), calor.asarray(0.0))
    assert metric.state["right"].item() == 2**24 + 1


def zero():
    return calor.asarray(0.0)


ERRORS = [
    (
        lambda: Accuracy().update(calor.zeros((2, 3)), calor.zeros((3,)), zero()),
        ShapeError,
        r"should have shape \(2,\), not \(3,\)",
    ),
    (
        lambda: ConfusionMatrix(4).update(
            calor.zeros((2, 3)), calor.zeros((2,), dtype=calor.int64), zero()
        ),
        ShapeError,
        "outputs have 3 classes, the confusion matrix 4",
    ),
    (lambda: TopK(0), ArgumentError, "k must be at least 1"),
    (lambda: ConfusionMatrix(0), ArgumentError, "classes must be at least 1"),
    (lambda: RunningMean("r", decay=1.0), ArgumentError, "below 1, not 1.0"),
    (lambda: Loss().update(None, "text", zero()), ArgumentError, "must hold a tensor of shape"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()
