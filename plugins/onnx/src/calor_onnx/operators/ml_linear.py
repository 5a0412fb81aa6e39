"""ai.onnx.ml: linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.scores import labelled, numbers, table, transformed

DOMAIN = "ai.onnx.ml"
# libsvm's bounds of probabilities, and its stopping rule for pairwise coupling.
_NEAR, _ROUNDS, _EPSILON = 1e-7, 100, 0.005


@operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    call: Call, x: Any, *, coefficients: list[float], intercepts: list[float] | None = None,
    targets: int = 1, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """x · coefficients + intercepts."""
    return transformed(_linear(call, x, coefficients, intercepts, targets), post_transform)


@operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    call: Call, x: Any, *, coefficients: list[float], intercepts: list[float] | None = None,
    classlabels_ints: list[int] | None = None, classlabels_strings: list[str] | None = None,
    multi_class: int = 0, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """The class of each row, and the scores of all classes."""
    x = x if x.ndim > 1 else calor.reshape(x, (1, -1))
    classes = len(intercepts or []) or len(coefficients) // x.shape[1]
    made = _linear(call, x, coefficients, intercepts, classes)
    labels = len(classlabels_strings or classlabels_ints or [])
    if classes == 1 and labels == 2:
        places = calor.astype(calor.greater(made[:, 0], 0), calor.int64)
        if post_transform == "LOGISTIC":
            scores = calor.concat([calor.sigmoid(-made), calor.sigmoid(made)], axis=1)
        else:
            scores = transformed(calor.concat([1 - made, made], axis=1), post_transform)
    else:
        places = calor.argmax(made, axis=1)
        scores = transformed(made, post_transform)
    return labelled(call, places, classlabels_ints, classlabels_strings), scores


def _linear(call: Call, x: Any, coefficients: Any, intercepts: Any, rows: int) -> Any:
    x = numbers(call, x)
    weights = np.array(coefficients, np.float32).reshape(rows, -1)
    made = calor.matmul(x, table(weights.T.copy(), x))
    return made if not intercepts else made + table(np.array(intercepts, np.float32), made)


def kernel(x: Any, vectors: Any, name: str, parameters: Any) -> Any:
    """Return the kernel of rows (N, F) and support vectors (S, F), by its name: (N, S)."""
    gamma, offset, degree = [*(parameters or []), 0.0, 0.0, 0.0][:3]
    if name == "RBF":
        squares = calor.sum(calor.square(calor.expand_dims(x, 1) - vectors), axis=2)
        return calor.exp(squares * -gamma)
    dot = calor.matmul(x, calor.matrix_transpose(vectors))
    if name == "LINEAR":
        return dot
    if name == "POLY":
        return calor.pow(dot * gamma + offset, float(degree))
    if name == "SIGMOID":
        return calor.tanh(dot * gamma + offset)
    raise ModelError(f"support vector machines have no kernel {name!r}")


@operator("SVMRegressor", domain=DOMAIN)
def svm_regressor(
    call: Call, x: Any, *, coefficients: list[float], rho: list[float],
    kernel_params: list[float] | None = None, kernel_type: str = "LINEAR", n_supports: int = 0,
    one_class: int = 0, post_transform: str = "NONE", support_vectors: list[float] | None = None,
) -> Any:  # fmt: skip
    """The weighted sum of the kernel with each support vector; with one class its sign."""
    x = numbers(call, x)
    weights = table(np.array(coefficients, np.float32).reshape(-1, 1), x)
    if n_supports:
        vectors = table(np.array(support_vectors, np.float32).reshape(n_supports, -1), x)
        made = calor.matmul(kernel(x, vectors, kernel_type, kernel_params), weights)
    else:
        made = calor.matmul(x, weights)
    made = made + float(rho[0])
    if one_class:
        return calor.where(calor.greater(made, 0), 1.0, -1.0)
    return transformed(made, post_transform)


@operator("SVMClassifier", domain=DOMAIN)
def svm_classifier(
    call: Call, x: Any, *, coefficients: list[float], rho: list[float],
    support_vectors: list[float] | None = None, vectors_per_class: list[int] | None = None,
    classlabels_ints: list[int] | None = None, classlabels_strings: list[str] | None = None,
    kernel_params: list[float] | None = None, kernel_type: str = "LINEAR",
    prob_a: list[float] | None = None, prob_b: list[float] | None = None,
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """The class of each row, and probabilities, or what decides between pairs of classes."""
    x = numbers(call, x)
    count = len(classlabels_strings or classlabels_ints or [])
    if not vectors_per_class:
        weights = np.array(coefficients, np.float32).reshape(count, -1)
        made = calor.matmul(x, table(weights.T.copy(), x)) + float(rho[0])
        places = calor.argmax(made, axis=1)
        labels = labelled(call, places, classlabels_ints, classlabels_strings)
        return labels, transformed(made, post_transform)
    total = sum(vectors_per_class)
    vectors = table(np.array(support_vectors, np.float32).reshape(total, -1), x)
    values = kernel(x, vectors, kernel_type, kernel_params)
    decisions = calor.matmul(values, table(_pairs(coefficients, vectors_per_class), x))
    decisions = decisions + table(np.array(rho, np.float32), x)
    if prob_a:
        scores = probabilities(decisions, prob_a, prob_b or [], count)
        places = calor.argmax(_votes(decisions, count), axis=1)
    else:
        places = calor.argmax(_votes(decisions, count), axis=1)
        scores = decisions
        if count == 2:
            scores = calor.concat([-decisions, decisions], axis=1)
            places = 1 - places if _all_positive(coefficients) else places
        scores = transformed(scores, post_transform)
    return labelled(call, places, classlabels_ints, classlabels_strings), scores


def _all_positive(coefficients: list[float]) -> bool:
    return all(c >= 0 for c in coefficients)


def _pairs(coefficients: list[float], counts: list[int]) -> Any:
    """Return the weight of each support vector in each decision between two classes: (S, pairs)."""
    total = sum(counts)
    weights = np.array(coefficients, np.float32).reshape(-1, total)
    starts = np.concatenate([[0], np.cumsum(counts)])
    columns = []
    for i, j in combinations(range(len(counts)), 2):
        column = np.zeros(total, np.float32)
        column[starts[i] : starts[i + 1]] = weights[j - 1, starts[i] : starts[i + 1]]
        column[starts[j] : starts[j + 1]] = weights[i, starts[j] : starts[j + 1]]
        columns.append(column)
    return np.stack(columns, axis=1)


def _votes(decisions: Any, count: int) -> Any:
    """Return how many decisions each class wins: (N, count)."""
    first = np.zeros((decisions.shape[1], count), np.float32)
    second = first.copy()
    for row, (i, j) in enumerate(combinations(range(count), 2)):
        first[row, i] = second[row, j] = 1
    won = calor.astype(calor.greater(decisions, 0), calor.float32)
    return calor.matmul(won, table(first, won)) + calor.matmul(1 - won, table(second, won))


def probabilities(decisions: Any, a: list[float], b: list[float], count: int) -> Any:
    """Return the probabilities of classes from decisions between pairs (Wu, Lin and Weng, 2004).

    The rounds and where they stop are libsvm's, so that its results are met.
    """
    raw = decisions * table(np.array(a, np.float32), decisions)
    pair = calor.sigmoid(-(raw + table(np.array(b, np.float32), decisions)))
    pair = calor.clip(pair, _NEAR, 1 - _NEAR)
    r: dict[tuple[int, int], Any] = {}
    for row, (i, j) in enumerate(combinations(range(count), 2)):
        r[i, j], r[j, i] = pair[:, row], 1 - pair[:, row]
    rows = [
        calor.stack([
            sum(r[k, t] * r[k, t] for k in range(count) if k != t) if j == t
            else -r[j, t] * r[t, j]
            for j in range(count)
        ], axis=1)
        for t in range(count)
    ]  # fmt: skip
    q = calor.stack(rows, axis=1)
    ones = calor.full((decisions.shape[0], count), 1 / count, dtype=q.dtype, device=q.device)

    def step(_: Any, p: Any) -> Any:
        qp = calor.sum(q * calor.expand_dims(p, 1), axis=2)
        total = calor.sum(p * qp, axis=1, keepdims=True)
        error = calor.max(calor.abs(qp - total), axis=1, keepdims=True)
        new = p
        for t in range(count):
            difference = (total - qp[:, t : t + 1]) / q[:, t, t : t + 1]
            scale = 1 / (1 + difference)
            turn = difference * q[:, t, t : t + 1] + 2 * qp[:, t : t + 1]
            total = (total + difference * turn) * scale * scale
            qp = (qp + difference * q[:, t, :]) * scale
            unit = table(np.eye(count, dtype=np.float32)[t : t + 1], q)
            new = (new + difference * unit) * scale
        return calor.where(calor.less(error, _EPSILON / count), p, new)

    return calor.fori_loop(0, max(_ROUNDS, count), step, ones)
