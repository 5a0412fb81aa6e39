"""Operators of ai.onnx.ml, beside ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import calor_onnx

rng = np.random.default_rng(0)
X = rng.standard_normal((6, 4)).astype(np.float32)
HOLES = np.where(X > 0.5, np.nan, X).astype(np.float32)
N = rng.integers(0, 4, (5, 1))
TEXTS = np.array([["a"], ["c"], ["b"], ["a"]], np.object_)
THREE = rng.standard_normal(12).round(3).tolist()


def model_of(op: str, inputs: list[Any], outputs: int, attributes: dict[str, Any]) -> bytes:
    """A model of one node of ai.onnx.ml."""
    helper = onnx.helper
    given = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for i, x in enumerate(inputs)
    ]
    made = [f"y{i}" for i in range(outputs)]
    names = [info.name for info in given]
    node = helper.make_node(op, names, made, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], op, given, [onnx.ValueInfoProto(name=n) for n in made])
    version = 4 if op == "LabelEncoder" else 3
    old = op == "LabelEncoder" and "classes_strings" in attributes
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1 if old else version)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    return bytes(model.SerializeToString())


def compare(op: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> None:
    data = model_of(op, inputs, outputs, attributes)
    feed = {f"x{i}": x for i, x in enumerate(inputs)}
    expected = onnxruntime.InferenceSession(data).run(None, feed)
    found = calor_onnx.InferenceSession(data, providers=["numpy"]).run(None, feed)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, list):
            assert [row.keys() for row in ours] == [row.keys() for row in theirs]
            assert [[*row.values()] for row in ours] == [
                pytest.approx([*row.values()]) for row in theirs
            ]
            continue
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)


FEATURES = [
    ("Scaler", [X], {"offset": [1.0, 2, 3, 4], "scale": [0.5, 1, 2, 3]}),
    ("Scaler", [N], {"offset": [1.0], "scale": [0.5]}),
    *(("Normalizer", [abs(X)], {"norm": norm}) for norm in ("MAX", "L1", "L2")),
    ("Binarizer", [X], {"threshold": 0.3}),
    ("Imputer", [HOLES], {"imputed_value_floats": [1.0, 2, 3, 4],
                          "replaced_value_float": float("nan")}),
    ("Imputer", [N], {"imputed_value_int64s": [7], "replaced_value_int64": 2}),
    ("FeatureVectorizer", [X, X[:, :1] * 2], {"inputdimensions": [4, 1]}),
    ("ArrayFeatureExtractor", [X, np.array([2, 0])], {}),
    ("ArrayFeatureExtractor", [TEXTS.T, np.array([2, 0])], {}),
    ("OneHotEncoder", [N], {"cats_int64s": [0, 2, 3]}),
    ("OneHotEncoder", [TEXTS], {"cats_strings": ["b", "a"]}),
    ("LabelEncoder", [TEXTS], {"keys_strings": ["a", "b"], "values_int64s": [5, 6]}),
    ("LabelEncoder", [TEXTS], {"keys_strings": ["a", "b"], "values_floats": [0.5, 6],
                               "default_float": 2.5}),
    ("LabelEncoder", [N], {"keys_int64s": [3, 1], "values_strings": ["x", "y"]}),
    ("LabelEncoder", [N], {"keys_int64s": [3, 1, 0], "values_int64s": [7, 8, 9]}),
    ("LabelEncoder", [HOLES.round()], {"keys_floats": [1.0, float("nan"), 0], "values_floats":
                                       [7.0, 8, 9]}),
    ("LabelEncoder", [TEXTS], {"classes_strings": ["a", "b"]}),
    ("LabelEncoder", [N], {"classes_strings": ["a", "b"]}),
    ("CategoryMapper", [TEXTS], {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}),
    ("CategoryMapper", [N], {"cats_strings": ["a", "b"], "cats_int64s": [0, 1]}),
    ("ZipMap", [X], {"classlabels_int64s": [3, 1, 2, 9]}),
    ("ZipMap", [X], {"classlabels_strings": ["a", "b", "c", "d"]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes"), FEATURES)
def test_features(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    compare(op, inputs, **attributes)


def test_dictionaries() -> None:
    from calor_onnx.operators import ml_features as ml

    call: Any = None
    names = ["b", "z", "a"]
    made = ml.dict_vectorizer(call, {"a": 2.5, "b": 1.5}, string_vocabulary=names)
    np.testing.assert_array_equal(made, [[1.5, 0, 2.5]])
    made = ml.dict_vectorizer(call, {3: "x"}, int64_vocabulary=[1, 3])
    assert made.tolist() == [["", "x"]]
    np.testing.assert_array_equal(ml.cast_map(call, {3: 1.5, 1: 2.5}), [[2.5, 1.5]])
    made = ml.cast_map(call, {2: 1.5}, map_form="SPARSE", max_map=4, cast_to="TO_INT64")
    np.testing.assert_array_equal(made, [[0, 0, 1, 0]])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear(transform: str) -> None:
    weights = {"coefficients": THREE, "intercepts": [0.1, 0.2, 0.3], "post_transform": transform}
    compare("LinearRegressor", [X], targets=3, **weights)
    compare("LinearClassifier", [X], 2, classlabels_ints=[4, 7, 1], **weights)
    compare("LinearClassifier", [X], 2, classlabels_strings=["a", "b", "c"], **weights)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_linear_of_two_classes(transform: str) -> None:
    compare("LinearClassifier", [X], 2, classlabels_ints=[0, 1], coefficients=THREE[:4],
            intercepts=[0.1], post_transform=transform)  # fmt: skip


KERNELS = [("LINEAR", [0, 0, 0]), ("RBF", [0.4, 0, 0]), ("POLY", [0.4, 1, 3]),
           ("SIGMOID", [0.4, 0.1, 0])]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters"), KERNELS)
def test_support_vectors(kind: str, parameters: list[float]) -> None:
    kernel = {"kernel_type": kind, "kernel_params": [float(p) for p in parameters]}
    vectors = rng.standard_normal(24).tolist()
    compare("SVMRegressor", [X], support_vectors=vectors, coefficients=THREE[:6], rho=[0.3],
            n_supports=6, **kernel)  # fmt: skip
    compare("SVMRegressor", [X], support_vectors=vectors, coefficients=THREE[:6], rho=[0.3],
            n_supports=6, one_class=1, **kernel)  # fmt: skip
    machine = {"support_vectors": vectors, "coefficients": THREE, "rho": [0.1, -0.2, 0.3],
               "vectors_per_class": [2, 1, 3], "classlabels_ints": [5, 6, 7], **kernel}  # fmt: skip
    compare("SVMClassifier", [X], 2, **machine)
    compare("SVMClassifier", [X], 2, prob_a=[-1.0, -2.0, -1.5], prob_b=[0.1, 0.2, 0.0], **machine)
    two = {"support_vectors": vectors, "coefficients": THREE[:6], "rho": [0.1],
           "vectors_per_class": [2, 4], "classlabels_strings": ["no", "yes"], **kernel}  # fmt: skip
    compare("SVMClassifier", [X], 2, prob_a=[-1.0], prob_b=[0.1], **two)


def trees(modes: list[str], leaves: list[tuple[int, int, int, float]], key: str) -> dict[str, Any]:
    """Two trees of two levels, and a third that is one leaf."""
    nodes = [
        (0, 0, 0, 0.1, modes[0], 1, 2), (0, 1, 1, -0.2, modes[1], 3, 4), (0, 2, 0, 0, "LEAF", 0, 0),
        (0, 3, 0, 0, "LEAF", 0, 0), (0, 4, 0, 0, "LEAF", 0, 0),
        (1, 0, 2, 0.0, modes[2], 1, 2), (1, 1, 0, 0, "LEAF", 0, 0), (1, 2, 0, 0, "LEAF", 0, 0),
        (2, 0, 0, 0, "LEAF", 0, 0),
    ]  # fmt: skip
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    found = {
        f"nodes_{n}": list(column)
        for n, column in zip(names, zip(*nodes, strict=True), strict=True)
    }
    found["nodes_values"] = [float(v) for v in found["nodes_values"]]
    for place, name in enumerate(("treeids", "nodeids", "ids", "weights")):
        found[f"{key}_{name}"] = [leaf[place] for leaf in leaves]
    return found


PLACES = [(0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (2, 0)]
ONE = [(*place, 0, w) for place, w in zip(PLACES, [0.5, -1, 2, 0.25, -0.75, 0.125], strict=True)]
MANY = [(*place, c, round(float(rng.standard_normal()), 3)) for place in PLACES for c in (0, 1, 2)]
LEQ = ["BRANCH_LEQ"] * 3


@pytest.mark.parametrize("modes", [LEQ, ["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"],
                                   ["BRANCH_EQ", "BRANCH_NEQ", "BRANCH_LEQ"]])  # fmt: skip
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_trees(modes: list[str], aggregate: str) -> None:
    x = np.where(X > 1, np.nan, X.round(1)).astype(np.float32)
    made = trees(modes, MANY, "target")
    made["nodes_missing_value_tracks_true"] = [1, 0, 0, 0, 0, 1, 0, 0, 0]
    compare("TreeEnsembleRegressor", [x], n_targets=3, aggregate_function=aggregate,
            base_values=[0.5, 0.25, 1.0], **made)  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_classification_trees(transform: str) -> None:
    options = {"post_transform": transform}
    compare("TreeEnsembleClassifier", [X], 2, classlabels_int64s=[1, 5, 2], **options,
            **trees(LEQ, MANY, "class"))  # fmt: skip
    compare("TreeEnsembleClassifier", [X], 2, classlabels_strings=["a", "b", "c"], **options,
            base_values=[0.1, 0.2, 0.3], **trees(LEQ, MANY, "class"))  # fmt: skip
    for leaves in (ONE, [(*leaf[:3], abs(leaf[3])) for leaf in ONE]):
        compare("TreeEnsembleClassifier", [X], 2, classlabels_int64s=[0, 1], **options,
                **trees(LEQ, leaves, "class"))  # fmt: skip


def test_a_tree_that_is_damaged_says_so() -> None:
    broken = trees(LEQ, ONE, "class") | {"nodes_truenodeids": [1, 0, 0, 0, 0, 1, 0, 0, 0]}
    data = model_of("TreeEnsembleClassifier", [X], 2, {"classlabels_int64s": [0, 1], **broken})
    with pytest.raises(calor_onnx.ModelError, match="form a circle"):
        calor_onnx.load(data, device="numpy")(X)
    whole = {"classlabels_int64s": [0, 1], **trees(LEQ, ONE, "class")}
    model = calor_onnx.load(model_of("TreeEnsembleClassifier", [X[:, :1]], 2, whole), "numpy")
    with pytest.raises(calor_onnx.ModelError, match="reads feature 2; the rows have 1"):
        model(X[:, :1])


def test_texts_and_dictionaries_at_the_end_are_made_after_a_compiled_graph() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        classify (float[N, 2] x) =>
            (string[N] label, float[N, 2] again, seq(map(string, float)) z)
        {
            found, scores = ai.onnx.ml.LinearClassifier <coefficients = [1.0, 0.0, 0.0, 1.0],
                intercepts = [0.0, 0.0], classlabels_strings = ["left", "right"]> (x)
            z = ai.onnx.ml.ZipMap <classlabels_strings = ["left", "right"]> (scores)
            label = Identity (found)
            again = Identity (scores)
        }""")
    made = calor_onnx.load(model, device="numpy")
    label, again, rows = made(np.array([[1, 2], [4, 3]], np.float32))
    assert made.reason is None
    assert made.plans == 1
    assert label.tolist() == ["right", "left"]
    assert again.tolist() == [[1.0, 2.0], [4.0, 3.0]]
    assert rows == [{"left": 1.0, "right": 2.0}, {"left": 4.0, "right": 3.0}]
