"""ai.onnx.ml: preparing features, from scaling to encoding categories and texts.

Categories and texts are looked up on the host; everything that is arithmetic is the device's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.computing import constant
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.scores import is_final, numbers, table
from calor_onnx.types import STRING
from calor_onnx.values import Later, dtype_of

DOMAIN = "ai.onnx.ml"


@operator("Scaler", domain=DOMAIN)
def scaler(
    call: Call, x: Any, *, offset: list[float] | None = None, scale: list[float] | None = None
) -> Any:
    """(x − offset) · scale, by feature."""
    made = calor.astype(x, calor.float32)
    if offset:
        made = made - table(np.array(offset, np.float32), made)
    return made * table(np.array(scale, np.float32), made) if scale else made


@operator("Normalizer", domain=DOMAIN)
def normalizer(call: Call, x: Any, *, norm: str = "MAX") -> Any:
    """Each row divided by its largest element, its sum of magnitudes or its length."""
    made = calor.astype(x, calor.float32)
    if norm == "MAX":
        size = calor.max(made, axis=-1, keepdims=True)
    elif norm == "L1":
        size = calor.sum(calor.abs(made), axis=-1, keepdims=True)
    elif norm == "L2":
        size = calor.sqrt(calor.sum(calor.square(made), axis=-1, keepdims=True))
    else:
        raise ModelError(f"Normalizer: norm is {norm!r}; it must be MAX, L1 or L2")
    return made / calor.where(calor.equal(size, 0), 1, size)


@operator("Binarizer", domain=DOMAIN)
def binarizer(call: Call, x: Any, *, threshold: float = 0.0) -> Any:
    """1 where x is above the threshold, else 0."""
    return calor.astype(calor.greater(x, threshold), x.dtype)


@operator("Imputer", domain=DOMAIN)
def imputer(
    call: Call, x: Any, *, imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None, replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:  # fmt: skip
    """x with another value where it has the one that stands for a missing one."""
    if x.dtype.is_floating:
        values = np.array(imputed_value_floats or [], np.float64)
        missing = replaced_value_float
        hit = calor.isnan(x) if np.isnan(missing) else calor.equal(x, missing)
    else:
        values = np.array(imputed_value_int64s or [], np.int64)
        hit = calor.equal(x, replaced_value_int64)
    if not values.size:
        raise ModelError("Imputer has no replacement for missing values")
    given = calor.astype(table(values, x), x.dtype)
    return calor.where(hit, given if values.size > 1 else calor.reshape(given, ()), x)


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(call: Call, *xs: Any, inputdimensions: list[int] | None = None) -> Any:
    """The operands' features, side by side."""
    rows = [calor.astype(x if x.ndim > 1 else calor.reshape(x, (1, -1)), calor.float32) for x in xs]
    if inputdimensions:
        rows = [x[:, :n] for x, n in zip(rows, inputdimensions, strict=True)]
    return calor.concat(rows, axis=1)


@operator("ArrayFeatureExtractor", domain=DOMAIN, moves=True)
def array_feature_extractor(call: Call, x: Any, places: Any) -> Any:
    """The features of the last axis with those numbers."""
    x = x if x.ndim > 1 else calor.reshape(x, (1, -1))
    return calor.take(x, calor.reshape(places, (-1,)), axis=x.ndim - 1)


@operator("OneHotEncoder", domain=DOMAIN, raw=True)
def one_hot_encoder(
    call: Call, x: Any, *, cats_int64s: list[int] | None = None,
    cats_strings: list[str] | None = None, zeros: int = 1,
) -> Any:  # fmt: skip
    """1 at the place of each element's category, 0 elsewhere."""
    if dtype_of(x) == STRING:
        known = {name: i for i, name in enumerate(cats_strings or [])}
        places = np.array([known.get(text, -1) for text in call.host(x).reshape(-1)], np.int64)
        if not zeros and (places < 0).any():
            raise ModelError("OneHotEncoder: an element is not among the categories")
        made = (places[:, None] == np.arange(len(known))).astype(np.float32)
        return made.reshape(*x.shape, len(known))
    x = calor.astype(call.tensor(x), calor.int64)
    categories = table(np.array(cats_int64s or [], np.int64), x)
    return calor.astype(calor.equal(calor.expand_dims(x, -1), categories), calor.float32)


@operator("LabelEncoder", domain=DOMAIN, since=2, raw=True)
def label_encoder(
    call: Call, x: Any, *, keys_int64s: Any = None, keys_strings: Any = None,
    keys_floats: Any = None, keys_tensor: Any = None, values_int64s: Any = None,
    values_strings: Any = None, values_floats: Any = None, values_tensor: Any = None,
    default_int64: int = -1, default_string: str = "_Unused", default_float: float = -0.0,
    default_tensor: Any = None,
) -> Any:  # fmt: skip
    """The value for each element as a table has it, or the default."""
    keys = _given(keys_tensor, keys_strings, keys_int64s, keys_floats)
    values = _given(values_tensor, values_strings, values_int64s, values_floats)
    usual: Any = {"O": default_string, "i": default_int64}.get(values.dtype.kind, default_float)
    if default_tensor is not None:
        usual = np.asarray(default_tensor).reshape(-1)[0]
    if keys.dtype == np.object_ or values.dtype == np.object_:
        known = dict(zip(keys.tolist(), values, strict=True))
        host = call.host(x)
        found = [_looked_up(known, item, usual) for item in host.reshape(-1).tolist()]
        return np.array(found, values.dtype).reshape(host.shape)
    x = call.tensor(x)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    # A NaN among the keys sorts last and equals no element.
    lacks = keys.dtype.kind == "f" and bool(np.isnan(keys[-1:]).any())
    sought, given = table(keys[: len(keys) - lacks], x), table(values, x)
    if values.dtype.kind == "f":
        given = constant(values, x.device)
    made = calor.full(x.shape, usual, dtype=given.dtype, device=x.device)
    if sought.shape[0]:
        sought = calor.astype(sought, x.dtype)
        place = calor.searchsorted(sought, calor.reshape(x, (-1,)))
        place = calor.minimum(calor.reshape(place, x.shape), sought.shape[0] - 1)
        hit = calor.equal(calor.take(sought, place), x)
        made = calor.where(hit, calor.take(given, place), made)
    return calor.where(calor.isnan(x), given[-1], made) if lacks else made


def _given(tensor: Any, strings: Any, integers: Any, floats: Any) -> Any:
    """Return the keys or values that are given in one of the ways."""
    if tensor is not None:
        return np.asarray(tensor).reshape(-1)
    if strings:
        return np.array(strings, np.object_)
    if integers:
        return np.array(integers, np.int64)
    if floats:
        return np.array(floats, np.float32)
    raise ModelError("LabelEncoder has no keys, or no values")


def _looked_up(known: dict[Any, Any], item: Any, usual: Any) -> Any:
    if isinstance(item, float) and np.isnan(item):
        return next((v for k, v in known.items() if isinstance(k, float) and np.isnan(k)), usual)
    return known.get(item, usual)


@operator("LabelEncoder", domain=DOMAIN, raw=True)
def label_encoder_1(
    call: Call, x: Any, *, classes_strings: list[str], default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:  # fmt: skip
    """The place of a text among classes, or the class of a place."""
    numbers_of = list(range(len(classes_strings)))
    if dtype_of(x) == STRING:
        return label_encoder(call, x, keys_strings=classes_strings, values_int64s=numbers_of,
                             default_int64=default_int64)  # fmt: skip
    return label_encoder(call, x, keys_int64s=numbers_of, values_strings=classes_strings,
                         default_string=default_string)  # fmt: skip


@operator("CategoryMapper", domain=DOMAIN, raw=True)
def category_mapper(
    call: Call, x: Any, *, cats_int64s: list[int], cats_strings: list[str],
    default_int64: int = -1, default_string: str = "_Unused",
) -> Any:  # fmt: skip
    """The number of a text, or the text of a number, as a table has them."""
    if dtype_of(x) == STRING:
        return label_encoder(call, x, keys_strings=cats_strings, values_int64s=cats_int64s,
                             default_int64=default_int64)  # fmt: skip
    return label_encoder(call, x, keys_int64s=cats_int64s, values_strings=cats_strings,
                         default_string=default_string)  # fmt: skip


@operator("ZipMap", domain=DOMAIN, raw=True)
def zip_map(
    call: Call, x: Any, *, classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
) -> Any:  # fmt: skip
    """Each row's scores by their labels, in the labels' order: a list of dictionaries."""
    labels: list[Any] = list(classlabels_strings or classlabels_int64s or [])
    order = sorted(range(len(labels)), key=labels.__getitem__)

    def rows(found: Any) -> list[dict[Any, float]]:
        scores = found.reshape(-1, len(labels)).tolist()
        return [{labels[i]: row[i] for i in order} for row in scores]

    scores = numbers(call, x)
    return Later(scores, rows) if is_final(call, 0) else rows(call.host(scores))


@operator("DictVectorizer", domain=DOMAIN, raw=True)
def dict_vectorizer(
    call: Call, x: Any, *, int64_vocabulary: list[int] | None = None,
    string_vocabulary: list[str] | None = None,
) -> Any:  # fmt: skip
    """The values of a dictionary in the order of a vocabulary, 0 for what it lacks."""
    names: list[Any] = list(string_vocabulary or int64_vocabulary or [])
    texts = any(isinstance(value, str) for value in x.values())
    kind: Any = np.object_ if texts else np.float32
    if not texts and all(isinstance(value, int) for value in x.values()):
        kind = np.int64
    return np.array([[x.get(name, "" if texts else 0) for name in names]], kind)


@operator("CastMap", domain=DOMAIN, raw=True)
def cast_map(
    call: Call, x: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Any:
    """The values of a dictionary in the order of its keys, or at their places."""
    if map_form == "SPARSE":
        values: list[Any] = ["" if cast_to == "TO_STRING" else 0] * max_map
        for key, value in x.items():
            values[key] = value
    else:
        values = [x[key] for key in sorted(x)]
    kinds: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": np.object_}
    return np.array([values]).astype(kinds[cast_to])
