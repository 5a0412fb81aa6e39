"""ai.onnx.ml: tree ensembles, as random forests and boosted trees are exported.

The forest of a node is built once, at its first run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.scores import labelled, numbers, table, transformed
from calor_onnx.trees import LEAF, MEMBER, Forest, forest

DOMAIN = "ai.onnx.ml"
Array = np.ndarray[Any, Any]


def _kept(call: Call, make: Any) -> Any:
    """Return an object built from a node's attributes, cached after the first call."""
    bodies = call.node.bodies
    if "forest" not in bodies:
        bodies["forest"] = make()
    return bodies["forest"]


def _base(attributes: dict[str, Any], dtype: Any) -> Array | None:
    base = attributes.get("base_values_as_tensor")
    base = attributes.get("base_values") if base is None else base
    return None if base is None or not len(base) else np.asarray(base, dtype)


@operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    call: Call, x: Any, *, n_targets: int = 1, aggregate_function: str = "SUM",
    post_transform: str = "NONE", **attributes: Any,
) -> Any:  # fmt: skip
    """The values of the leaves that a row reaches, aggregated by sum, mean, minimum or maximum."""
    x = numbers(call, x)
    kind = x.dtype.numpy
    trees = _kept(call, lambda: forest(attributes, range(n_targets), "target", kind))
    made = trees.scores(x, aggregate_function)
    base = _base(attributes, kind)
    made = made if base is None else made + table(base, made)
    return calor.astype(transformed(made, post_transform), calor.float32)


@operator("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(
    call: Call, x: Any, *, classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None, post_transform: str = "NONE",
    **attributes: Any,
) -> Any:  # fmt: skip
    """The class of each row, and the scores of all classes."""
    x = numbers(call, x)
    kind = x.dtype.numpy
    count = len(classlabels_strings or classlabels_int64s or [])
    used = sorted(set(attributes["class_ids"]))
    base = _base(attributes, kind)
    if count == 2 and len(used) == 1:
        trees = _kept(call, lambda: forest(attributes, used, "class", kind))
        made = trees.scores(x, "SUM")
        if base is not None:
            made = made + float(base[-1])
        positive = bool((trees.weights >= 0).all())
        scores, places = two_classes(made, post_transform, positive)
    else:
        trees = _kept(call, lambda: forest(attributes, range(count), "class", kind))
        made = trees.scores(x, "SUM")
        made = made if base is None else made + table(base, made)
        places = calor.argmax(made, axis=1)
        scores = transformed(made, post_transform)
    labels = labelled(call, places, classlabels_int64s, classlabels_strings)
    return labels, calor.astype(scores, calor.float32)


def two_classes(score: Any, transform: str, positive: bool) -> tuple[Any, Any]:
    """Return the scores of two classes and the class, from the second's score (N, 1)."""
    places = calor.astype(calor.greater(score[:, 0], 0.5 if positive else 0.0), calor.int64)
    if transform == "LOGISTIC":
        return calor.concat([calor.sigmoid(-score), calor.sigmoid(score)], axis=1), places
    if transform == "PROBIT":
        return transformed(score, transform), places
    return calor.concat([1 - score if positive else -score, score], axis=1), places


@operator("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(
    call: Call, x: Any, *, tree_roots: list[int], nodes_featureids: list[int],
    nodes_splits: Array, nodes_modes: Array, nodes_truenodeids: list[int],
    nodes_falsenodeids: list[int], nodes_trueleafs: list[int], nodes_falseleafs: list[int],
    leaf_targetids: list[int], leaf_weights: Array, n_targets: int = 1,
    aggregate_function: int = 1, post_transform: int = 0,
    nodes_missing_value_tracks_true: list[int] | None = None,
    membership_values: Array | None = None, nodes_hitrates: Any = None,
) -> Any:  # fmt: skip
    """As TreeEnsembleRegressor, with inner nodes and leaves in lists of their own."""
    x = numbers(call, x)
    kind = x.dtype.numpy

    def make() -> Forest:
        inner, leaves = len(nodes_featureids), len(leaf_targetids)
        far = np.arange(inner, inner + leaves)
        branches = []
        for ids, ends in (
            (nodes_truenodeids, nodes_trueleafs),
            (nodes_falsenodeids, nodes_falseleafs),
        ):
            lie = np.array(ids, np.int64) + np.where(np.array(ends, np.bool_), inner, 0)
            branches.append(np.concatenate([lie, far]))
        weights = np.zeros((inner + leaves, n_targets), kind)
        given = np.zeros(weights.shape, np.bool_)
        weights[far, leaf_targetids] = np.asarray(leaf_weights, kind).reshape(-1)
        given[far, leaf_targetids] = True
        modes = np.concatenate([np.asarray(nodes_modes, np.int64).reshape(-1), [LEAF] * leaves])
        missing = np.zeros(inner + leaves, np.bool_)
        if nodes_missing_value_tracks_true:
            missing[:inner] = nodes_missing_value_tracks_true
        pad = np.zeros(leaves)
        return Forest(
            roots=np.array(tree_roots, np.int64),
            features=np.concatenate([nodes_featureids, pad]).astype(np.int64),
            values=np.concatenate([np.asarray(nodes_splits).reshape(-1), pad]).astype(kind),
            modes=modes.astype(np.int64),
            yes=branches[0],
            no=branches[1],
            missing=missing,
            weights=weights,
            given=given,
            members=_members(membership_values, modes, kind),
        )

    made = _kept(call, make).scores(x, ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function])
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return transformed(made, names[post_transform])


def _members(values: Array | None, modes: Array, kind: Any) -> Array | None:
    """Return the sets of nodes that test membership, padded with NaN, by node."""
    asking = np.flatnonzero(modes == MEMBER)
    if not asking.size:
        return None
    if values is None:
        raise ModelError("TreeEnsemble asks for membership and has no membership_values")
    flat = np.asarray(values).reshape(-1)
    ends = np.flatnonzero(np.isnan(flat))
    sets = np.split(flat, ends + 1)[: len(asking)]
    sets = [s[~np.isnan(s)] for s in sets]
    made = np.full((len(modes), max(max(map(len, sets)), 1)), np.nan, kind)
    for node, members in zip(asking, sets, strict=True):
        made[node, : len(members)] = members
    return made
