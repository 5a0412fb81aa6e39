"""Decision trees over rows of features, all rows and trees at once.

Requirements: all rows walk all trees together, one level at a time: a gather of the node's feature
and threshold, a comparison, a gather of the next node. A leaf is its own successor, so as many
steps as the deepest tree has levels reach a leaf in each. Leaf values are a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import calor
from calor_onnx.errors import ModelError
from calor_onnx.scores import table

Array = np.ndarray[Any, Any]
# The numbers of TreeEnsemble; LEAF is added here.
MODES = {
    "BRANCH_LEQ": 0,
    "BRANCH_LT": 1,
    "BRANCH_GTE": 2,
    "BRANCH_GT": 3,
    "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5,
    "BRANCH_MEMBER": 6,
    "LEAF": 7,
}
MEMBER, LEAF = 6, 7
_COMPARE = (
    calor.less_equal,
    calor.less,
    calor.greater_equal,
    calor.greater,
    calor.equal,
    calor.not_equal,
)


@dataclass(eq=False)
class Forest:
    """The nodes of all trees in one numbering; ``weights`` (nodes, C) are the leaf values.

    ``given`` (nodes, C) marks the values that a leaf has, for aggregation by minimum and maximum.
    """

    roots: Array
    features: Array
    values: Array
    modes: Array
    yes: Array
    no: Array
    missing: Array
    weights: Array
    given: Array
    members: Array | None = None

    def __post_init__(self) -> None:
        count = len(self.features)
        for name, lie in (("true", self.yes), ("false", self.no), ("root", self.roots)):
            if lie.size and not (lie.min() >= 0 and lie.max() < count):
                raise ModelError(f"a tree has a {name} branch to a missing node")
        self.depth = self._depth()

    def _depth(self) -> int:
        level, depth = np.unique(self.roots), 0
        while True:
            inner = level[self.modes[level] != LEAF]
            if not inner.size:
                return depth
            depth += 1
            if depth > len(self.features):
                raise ModelError("the branches of a tree form a circle")
            level = np.unique(np.concatenate([self.yes[inner], self.no[inner]]))

    def leaves(self, x: Any) -> Any:
        """Return the indices of the leaves that rows (N, F) reach in each tree: (N, T)."""
        if self.features.size and int(self.features.max()) >= x.shape[1]:
            raise ModelError(
                f"a tree reads feature {int(self.features.max())}; the rows have {x.shape[1]}"
            )
        features, yes, no = (table(a, x) for a in (self.features, self.yes, self.no))
        values = table(self.values, x)
        node = calor.broadcast_to(table(self.roots[None], x), (x.shape[0], len(self.roots)))
        for _ in range(self.depth):
            found = calor.take_along_axis(x, calor.take(features, node), axis=1)
            hit = self._compared(found, calor.take(values, node), node)
            node = calor.where(hit, calor.take(yes, node), calor.take(no, node))
        return node

    def _compared(self, found: Any, values: Any, node: Any) -> Any:
        kinds = [int(mode) for mode in np.unique(self.modes) if mode != LEAF]
        mode: Any = calor.take(table(self.modes, found), node) if len(kinds) > 1 else None
        hit: Any = None
        for kind in kinds:
            made = self._member(found, node) if kind == MEMBER else _COMPARE[kind](found, values)
            hit = made if hit is None else calor.where(calor.equal(mode, kind), made, hit)
        if self.missing.any():
            missing = calor.take(table(self.missing, found), node)
            hit = calor.logical_or(hit, calor.logical_and(missing, calor.isnan(found)))
        return hit

    def _member(self, found: Any, node: Any) -> Any:
        rows = calor.take(table(self.members, found), node, axis=0)
        return calor.any(calor.equal(rows, calor.expand_dims(found, -1)), axis=-1)

    def scores(self, x: Any, aggregate: str) -> Any:
        """Return the aggregated values of the leaves that rows reach: (N, C)."""
        leaves = self.leaves(x)
        each = calor.take(table(self.weights, x), leaves, axis=0)
        if aggregate in ("SUM", "AVERAGE"):
            total = calor.sum(each, axis=1)
            return total / len(self.roots) if aggregate == "AVERAGE" else total
        if aggregate not in ("MIN", "MAX"):
            raise ModelError(f"aggregate is {aggregate!r}, which ONNX does not define")
        far = np.inf if aggregate == "MIN" else -np.inf
        if not self.given.all():
            given = calor.take(table(self.given, x), leaves, axis=0)
            each = calor.where(given, each, far)
        made = (calor.min if aggregate == "MIN" else calor.max)(each, axis=1)
        return calor.where(calor.isinf(made), 0, made)


def forest(attributes: dict[str, Any], targets: Sequence[int], prefix: str, dtype: Any) -> Forest:
    """Return the forest of TreeEnsembleClassifier or TreeEnsembleRegressor.

    ``prefix`` is ``class`` or ``target``; ``targets`` are the column indices of leaf values.
    """
    trees = attributes["nodes_treeids"]
    keys = list(zip(trees, attributes["nodes_nodeids"], strict=True))
    place = {key: i for i, key in enumerate(keys)}
    if len(place) != len(keys):
        raise ModelError("two nodes of a tree have the same number")
    modes = np.array([MODES[mode] for mode in attributes["nodes_modes"]], np.int64)
    own = np.arange(len(keys))
    leaf = modes == LEAF
    try:
        yes, no = (
            np.array([place.get((t, n), 0 if end else -1) for t, n, end in
                      zip(trees, attributes[f"nodes_{side}nodeids"], leaf, strict=True)], np.int64)
            for side in ("true", "false")
        )  # fmt: skip
        ends = zip(attributes[f"{prefix}_treeids"], attributes[f"{prefix}_nodeids"], strict=True)
        rows = [place[key] for key in ends]
    except KeyError as error:
        raise ModelError(f"a leaf's weight belongs to the missing node {error}") from None
    yes, no = np.where(leaf, own, yes), np.where(leaf, own, no)
    values = attributes.get("nodes_values_as_tensor")
    values = attributes.get("nodes_values") if values is None else values
    weights = attributes.get(f"{prefix}_weights_as_tensor")
    weights = attributes.get(f"{prefix}_weights") if weights is None else weights
    made = np.zeros((len(keys), len(targets)), dtype)
    given = np.zeros(made.shape, np.bool_)
    columns = {target: i for i, target in enumerate(targets)}
    lie = [columns[target] for target in attributes[f"{prefix}_ids"]]
    np.add.at(made, (rows, lie), np.asarray(weights, dtype))
    given[rows, lie] = True
    reached = np.zeros(len(keys), np.bool_)
    reached[yes[~leaf]] = reached[no[~leaf]] = True
    roots = []
    for tree in dict.fromkeys(trees):
        nodes = own[np.array(trees) == tree]
        free = nodes[~reached[nodes] & (~leaf[nodes] | (len(nodes) == 1))]
        if not free.size:
            raise ModelError(f"the tree {tree} has no root: its branches form a circle")
        roots.append(free[0])
    missing = attributes.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    return Forest(
        roots=np.array(roots, np.int64),
        features=np.array(attributes["nodes_featureids"], np.int64) * ~leaf,
        values=np.asarray(values, dtype).reshape(-1),
        modes=modes,
        yes=yes,
        no=no,
        missing=np.array(missing, np.bool_),
        weights=made,
        given=given,
    )
