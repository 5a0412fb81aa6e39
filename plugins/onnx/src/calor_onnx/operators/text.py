"""Texts, on the host; arrays of objects."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator


def _each(function: Any, x: Any, dtype: Any = np.object_) -> Any:
    """Return what a function gives for each element."""
    return np.array([function(item) for item in x.reshape(-1)], dtype).reshape(x.shape)


@operator("StringConcat", since=20, raw=True)
def string_concat(call: Call, x: Any, y: Any) -> Any:
    """The texts of x, each followed by that of y, broadcast."""
    return np.asarray(x + y, np.object_)


@operator("StringSplit", since=20, raw=True)
def string_split(
    call: Call, x: Any, *, delimiter: str | None = None, maxsplit: int | None = None
) -> Any:
    """The parts of each text along a new axis, filled up with empty ones, and their numbers."""
    limit = -1 if maxsplit is None else maxsplit
    split = [text.split(delimiter or None, limit) for text in x.reshape(-1)]
    counts = np.array([len(parts) for parts in split], np.int64)
    longest = int(counts.max(initial=0))
    made = np.full((len(split), longest), "", np.object_)
    for row, parts in enumerate(split):
        made[row, : len(parts)] = parts
    return made.reshape(*x.shape, longest), counts.reshape(x.shape)


@operator("StringNormalizer", since=10, raw=True)
def string_normalizer(
    call: Call,
    x: Any,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: list[str] | None = None,
) -> Any:
    """The texts without those that are stop words, in upper or lower case."""
    if x.ndim > 2 or (x.ndim == 2 and x.shape[0] != 1):
        raise ModelError(f"StringNormalizer: x has shape {x.shape}; it must be (N,) or (1, N)")
    if case_change_action not in ("NONE", "LOWER", "UPPER"):
        raise ModelError(
            f"StringNormalizer: case_change_action is {case_change_action!r}; it must be NONE, "
            f"LOWER or UPPER"
        )
    words = set(stopwords or ())
    if not is_case_sensitive:
        words = {word.lower() for word in words}
    kept = [t for t in x.reshape(-1) if (t if is_case_sensitive else t.lower()) not in words]
    if case_change_action == "LOWER":
        kept = [text.lower() for text in kept]
    elif case_change_action == "UPPER":
        kept = [text.upper() for text in kept]
    made = np.array(kept or [""], np.object_)
    return made.reshape(1, -1) if x.ndim == 2 else made


@operator("RegexFullMatch", since=20, raw=True)
def regex_full_match(call: Call, x: Any, *, pattern: str = "") -> Any:
    """Whether each text as a whole matches a regular expression."""
    try:
        whole = re.compile(pattern)
    except re.error as error:
        raise ModelError(f"RegexFullMatch: the pattern {pattern!r}: {error}") from None
    return _each(lambda text: whole.fullmatch(text) is not None, x, np.bool_)


@operator("TfIdfVectorizer", since=9, raw=True)
def tf_idf_vectorizer(
    call: Call,
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Any:
    """How often each n-gram of a pool occurs in each row, weighted; skips lie between its items.

    TF is the count, IDF the weight where it occurs, TFIDF their product.
    """
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ModelError(f"TfIdfVectorizer: mode is {mode!r}; it must be TF, IDF or TFIDF")
    pool: list[Any] = list(pool_strings or pool_int64s or ())
    grams = _grams(pool, ngram_counts, min_gram_length, max_gram_length)
    array = call.host(x)
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    counts = np.zeros((len(rows), max(ngram_indexes, default=-1) + 1), np.float32)
    for row, items in enumerate(rows.tolist()):
        for gram in _found(items, min_gram_length, max_gram_length, max_skip_count):
            place = grams.get(gram)
            if place is not None:
                counts[row, ngram_indexes[place]] += 1
    if mode != "TF" and weights:
        scale = np.ones(counts.shape[1], np.float32)
        scale[ngram_indexes] = weights
        counts = (counts if mode == "TFIDF" else counts > 0) * scale
    elif mode == "IDF":
        counts = (counts > 0).astype(np.float32)
    made = counts.astype(np.float32)
    return made.reshape(-1) if array.ndim < 2 else made


def _grams(
    pool: list[Any], starts: list[int], shortest: int, longest: int
) -> dict[tuple[Any, ...], int]:
    """Return the place of each n-gram of a pool; those of length n begin at ``starts[n − 1]``."""
    found: dict[tuple[Any, ...], int] = {}
    place = 0
    for i, start in enumerate(starts):
        length, end = i + 1, starts[i + 1] if i + 1 < len(starts) else len(pool)
        for at in range(start, end, length):
            if shortest <= length <= longest:
                found[tuple(pool[at : at + length])] = place
            place += 1
    return found


def _found(items: list[Any], shortest: int, longest: int, skips: int) -> Any:
    """Walk the n-grams of items, with 0 to ``skips`` items left out between two; 1-grams once."""
    for skip in range(skips + 1):
        step = skip + 1
        for length in range(shortest, longest + 1):
            if length == 1 and skip:
                continue
            for first in range(len(items) - (length - 1) * step):
                yield tuple(items[first : first + length * step : step])
