"""Do scikit-learn's estimators, as skl2onnx exports them, predict on calor what they predict there?

    python scikit_learn.py --device cpu

Classifiers, regressors and preparations are fitted on scikit-learn's own data, exported, and run by
calor-onnx and by ONNX Runtime: the classes must be the same for all rows but those at a border, and
numbers agree within 1e-4 of their range.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    datasets,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.compose import ColumnTransformer

TOLERANCE = 1e-4
iris = datasets.load_iris(return_X_y=True)
digits = datasets.load_digits(return_X_y=True)
cancer = datasets.load_breast_cancer(return_X_y=True)
scaled = (cancer[0] / cancer[0].max(0), cancer[1])
diabetes = datasets.load_diabetes(return_X_y=True)
named = (iris[0], np.array(["setosa", "versicolor", "virginica"])[iris[1]])
holes = np.where(np.random.default_rng(0).random(iris[0].shape) < 0.1, np.nan, iris[0])

ESTIMATORS: list[tuple[Any, Any]] = [
    (linear_model.LogisticRegression(max_iter=500), iris),
    (linear_model.LogisticRegression(max_iter=5000), cancer),
    (linear_model.LogisticRegression(max_iter=500), named),
    (linear_model.SGDClassifier(random_state=0), iris),
    (linear_model.RidgeClassifier(), cancer),
    (linear_model.LinearRegression(), diabetes),
    (linear_model.Ridge(), diabetes),
    (linear_model.Perceptron(random_state=0), iris),
    (tree.DecisionTreeClassifier(random_state=0), iris),
    (tree.DecisionTreeRegressor(random_state=0), diabetes),
    (ensemble.RandomForestClassifier(30, random_state=0), digits),
    (ensemble.RandomForestClassifier(30, random_state=0), cancer),
    (ensemble.RandomForestClassifier(10, random_state=0), named),
    (ensemble.ExtraTreesRegressor(20, random_state=0), diabetes),
    (ensemble.RandomForestRegressor(20, random_state=0), diabetes),
    (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), iris),
    (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), cancer),
    (ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0), diabetes),
    (ensemble.HistGradientBoostingClassifier(max_iter=20), cancer),
    (ensemble.HistGradientBoostingRegressor(max_iter=20), diabetes),
    (ensemble.AdaBoostClassifier(n_estimators=10, random_state=0), iris),
    (ensemble.IsolationForest(n_estimators=20, random_state=0), (iris[0], None)),
    (svm.SVC(), iris),
    (svm.SVC(kernel="poly"), iris),
    (svm.SVC(kernel="sigmoid"), cancer),
    (svm.SVC(kernel="linear"), scaled),
    (svm.SVC(probability=True, random_state=0), iris),
    (svm.SVC(probability=True, random_state=0), scaled),
    (svm.SVR(), diabetes),
    (svm.NuSVR(kernel="linear"), diabetes),
    (svm.LinearSVC(), iris),
    (svm.OneClassSVM(), (iris[0], None)),
    (neighbors.KNeighborsClassifier(), iris),
    (neighbors.KNeighborsRegressor(), diabetes),
    (naive_bayes.GaussianNB(), iris),
    (naive_bayes.BernoulliNB(), digits),
    (neural_network.MLPClassifier((16,), max_iter=50, random_state=0), iris),
    (discriminant_analysis.LinearDiscriminantAnalysis(), iris),
    (multiclass.OneVsRestClassifier(linear_model.LogisticRegression(max_iter=500)), iris),
    (calibration.CalibratedClassifierCV(svm.LinearSVC()), iris),
    (preprocessing.StandardScaler(), iris),
    (preprocessing.MinMaxScaler(), iris),
    (preprocessing.Normalizer(norm="l1"), iris),
    (preprocessing.Normalizer(), iris),
    (preprocessing.Binarizer(threshold=2.0), iris),
    (preprocessing.PolynomialFeatures(2), iris),
    (preprocessing.KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"), iris),
    (impute.SimpleImputer(), (holes, None)),
    (
        pipeline.make_pipeline(
            impute.SimpleImputer(),
            preprocessing.StandardScaler(),
            linear_model.LogisticRegression(max_iter=500),
        ),
        (holes, iris[1]),
    ),
]


def texts() -> list[tuple[str, Any, dict[str, Any]]]:
    """Return pipelines over columns of texts: names, models, and what they are fed."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], (60, 1)).astype(object)
    numbers = rng.normal(size=(60, 2)).astype(np.float32)
    y = (numbers[:, 0] + (colours[:, 0] == "red") > 0.3).astype(np.int64)
    import pandas

    frame = pandas.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "c": colours[:, 0]})
    columns = ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), ["a", "b"]),
            ("colours", preprocessing.OneHotEncoder(), ["c"]),
        ]
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(frame, y)
    kinds = [("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1])),
             ("c", StringTensorType([None, 1]))]  # fmt: skip
    feed = {"a": numbers[:, :1], "b": numbers[:, 1:], "c": colours}
    codes = preprocessing.OrdinalEncoder().fit(colours)
    found = [
        ("ColumnTransformer with colours", to_onnx(model, initial_types=kinds), feed),
        ("OrdinalEncoder", to_onnx(codes, initial_types=kinds[2:]), {"c": colours}),
    ]
    words = np.array([["a red house"], ["a blue house and a red car"], ["the car"]], object)
    counts = feature_extraction.text.TfidfVectorizer().fit(words[:, 0])
    made = to_onnx(counts, initial_types=[("c", StringTensorType([None, 1]))])
    return [*found, ("TfidfVectorizer", made, {"c": words})]


def compared(ours: Any, theirs: Any) -> float:
    """Return how far results are apart; for labels, the part of the rows that differ."""
    if isinstance(theirs, list):
        rows = [np.array(list(row.values())) for row in theirs]
        found = [
            np.array([row[key] for key in want]) for row, want in zip(ours, theirs, strict=True)
        ]
        return compared(np.stack(found), np.stack(rows))
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    if theirs.dtype.kind != "f":
        return float((ours != theirs).mean()) if theirs.size else 0.0
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def judge(name: str, proto: Any, feed: dict[str, Any], device: str) -> bool | None:
    """Run a model on both; print what differs; return whether it is right, None for no answer."""
    import onnxruntime

    import calor_onnx

    data = proto.SerializeToString()
    try:
        theirs = onnxruntime.InferenceSession(data).run(None, feed)
    except Exception as error:
        print(f"{name}: ONNX Runtime does not run it: {str(error)[:200]}")
        return None
    try:
        session = calor_onnx.InferenceSession(data, providers=[device])
        ours = session.run(None, feed)
        apart = [compared(a, b) for a, b in zip(ours, theirs, strict=True)]
    except Exception as error:
        print(f"{name}: FAILED: {type(error).__name__}: {str(error)[:600]}")
        return False
    reason = session.calor_model.reason
    right = all(d <= (TOLERANCE if np.asarray(t).dtype.kind in "fO" else 0.005)
                for d, t in zip(apart, theirs, strict=True))  # fmt: skip
    far = ", ".join(f"{d:.1e}" for d in apart)
    verdict = "right" if right else "WRONG"
    print(f"{name}: {verdict}, apart by {far}{'; ' + reason if reason else ''}", flush=True)
    return right


def main() -> int:
    """Fit, export and compare them all."""
    from skl2onnx import to_onnx

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all without any")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    right: list[bool | None] = []
    for estimator, (x, y) in ESTIMATORS:
        name = str(estimator).replace("\n", "")
        if options.names and not any(part in name for part in options.names):
            continue
        x = x.astype(np.float32)
        fitted = estimator.fit(x) if y is None else estimator.fit(x, y)
        for zipmap in (True, False) if hasattr(fitted, "predict_proba") else (False,):
            extra = {"options": {"zipmap": zipmap}} if hasattr(fitted, "predict_proba") else {}
            try:
                proto = to_onnx(fitted, x[:1], target_opset={"": 18, "ai.onnx.ml": 3}, **extra)
            except Exception as error:
                print(f"{name}: skl2onnx does not export it: {str(error)[:120]}")
                break
            # Rows that were fitted may lie on a border, where the last bit decides.
            right.append(judge(name, proto, {"X": x[:150] * np.float32(1.003)}, options.device))
    for name, proto, feed in texts():
        if not options.names or any(part in name for part in options.names):
            right.append(judge(name, proto, feed, options.device))
    asked = [answer for answer in right if answer is not None]
    print(f"{sum(asked)} of {len(asked)} are right")
    return int(not all(asked))


if __name__ == "__main__":
    sys.exit(main())
