"""Random numbers in exported models: a key's are calor's own, a generator's the runtime's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import calor
import calor_onnx
from calor import nn, random
from calor_onnx.exporting.models import DRAWN

from .checking import checked, session

X = calor.asarray(np.ones((3, 5), np.float32))
MORE = calor.asarray(np.ones((7, 5), np.float32))
KEY = random.key(7)

KEYED: dict[str, Callable[..., Any]] = {
    **{f"{w} bits": lambda x, w=w: (x, random.bits((5, 3), width=w, key=KEY)) for w in (8, 16, 64)},
    "normal": lambda x: random.normal(x.shape, key=KEY) * x,
    "uniform of 64 bits": lambda x: random.uniform(x.shape, key=KEY, dtype=calor.float64) * 2,
    "a key that is split": lambda x: random.uniform((4,), key=random.split(KEY)[1]) * x[0, 0],
    "a permutation": lambda x: random.permutation(6, key=KEY) + calor.astype(x[0, 0], calor.int64),
}


@pytest.mark.parametrize("case", KEYED)
def test_a_key_gives_the_same_numbers_everywhere(case: str) -> None:
    model = checked(KEYED[case], X)
    assert not model.doc_string


def test_a_key_may_be_an_input_and_sizes_any() -> None:
    checked(
        lambda x, key: random.normal(x.shape, key=key) * x,
        X,
        KEY,
        dynamic={"x": {0: "n"}},
        others=((MORE, random.key(8)), (X, random.key(9))),
    )


def test_a_counter_carries() -> None:
    generator = random.Generator(3)
    generator.set_state(
        (random.key(3), calor.asarray(np.array([2**32 - 2, 2**32 - 1, 5, 0], np.uint32)))
    )
    key, counter = generator.state
    from calor.ops.spectral import random_bits

    checked(lambda x: (x, random_bits(key, counter, shape=(17,), bits=32)), X)


GENERATED: dict[str, tuple[Callable[..., Any], Any, tuple[float, float]]] = {
    "normal": (lambda x: random.normal((200, 50)) + x[0, 0], {}, (1.0, 1.0)),
    "uniform": (
        lambda x: random.uniform((x.shape[0] * 1000, 5)) * x[0, 0], {"x": {0: "n"}},
        (0.5, 1 / 12**0.5),
    ),
    "bytes": (
        lambda x: calor.astype(random.bits((10000,), width=8), calor.float32) * x[0, 0], {},
        (127.5, 73.9),
    ),
    "64 bits": (
        lambda x: random.uniform((10000,), dtype=calor.float64) * 2 + calor.astype(
            x[0, 0], calor.float64), {}, (2.0, 2 / 12**0.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GENERATED)
def test_a_generator_is_the_runtimes(case: str) -> None:
    function, dynamic, (mean, deviation) = GENERATED[case]
    model = calor_onnx.export(function, X, dynamic=dynamic)
    onnx.checker.check_model(model, full_check=True)
    assert model.doc_string == DRAWN
    assert model.opset_import[0].version == 21
    want = function(X).numpy()
    theirs, ours = session(model), calor_onnx.load(model)
    for run in (lambda: theirs.run(None, {"x": X.numpy()})[0], lambda: ours(X).numpy()):
        got = run()
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        assert abs(got.mean() - mean) < 0.05 * max(mean, 1)
        assert abs(got.std() - deviation) < 0.05 * max(deviation, 1)
        # Others at each run.
        assert not np.array_equal(got, run())


def test_dropout_in_training_is_exported() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            self.drop = nn.Dropout(0.25)

        def forward(self, x: Any) -> Any:
            return self.drop(x)

    model = calor_onnx.export(Dropped(), calor.ones((4000,)))
    (got,) = session(model).run(None, {"x": np.ones(4000, np.float32)})
    assert set(np.unique(got).round(4)) == {0.0, np.float32(1 / 0.75).round(4)}
    assert abs(got.mean() - 1) < 0.05
