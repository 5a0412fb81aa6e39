"""Are products by tile registers right: rows and columns at the edges, batches, both dtypes?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL, bfloat16
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.planning.recording import Recorder
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

NAMES = {t.name: t for t in ALL}
# Rows, terms, columns; the batch; whether a, and b, lie in the other order.
ROWS = [
    (32, 64, 32, (), False, False),
    (16, 64, 33, (), False, False),
    (17, 128, 5, (), False, True),
    (31, 64, 70, (), True, False),
    (33, 64, 64, (), False, False),
    (100, 192, 50, (), True, True),
    (300, 64, 40, (), False, False),
    (40, 64, 24, (3,), False, True),
    (35, 64, 24, (2,), True, False),
    # The K axis ends within a step, and within a group of terms.
    (32, 65, 32, (), False, False),
    (48, 100, 33, (), False, True),
    (16, 127, 70, (), True, False),
    (40, 99, 24, (3,), False, False),
    (37, 192 + 33, 50, (), True, True),
    # The K axis takes several passes, of which the last one is short.
    (49, 832, 33, (), False, True),
    (33, 833, 20, (), False, False),
    (150, 450, 33, (), False, True),
]
TYPES = [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("int8", "int32")]


@pytest.fixture
def backend():
    features = ONE_UNIT.features | {"tile_8", "tile_bfloat16"}
    info = replace(ONE_UNIT, features=features, vector_bytes=64)
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.fixture
def labels(monkeypatch):
    """The labels of the launches that run."""
    found = []
    record = Recorder.record

    def noted(recorder, *given):
        made = record(recorder, *given)
        found.extend(launched.launch.label for launched in made.launches[0])
        return made

    monkeypatch.setattr(Recorder, "record", noted)
    return found


def check(backend, a, b, axes, batch, result):
    wide = np.int64 if result == "int32" else np.float64
    seen = [x if o is None else x.transpose(o) for x, o in zip((a, b), axes, strict=True)]
    last = len(batch)
    attributes = {
        "contract": ((last + 1,), (last,)),
        "batch": (tuple(range(last)),) * 2,
        "dtype": NAMES[result],
    }
    (found,), _ = run_op(backend, "dot_general", [a, b], attributes, axes)
    x, y = (v.astype(wide) for v in seen)
    if result == "int32":
        assert (found == x @ y).all()
        return
    # Rounding adds up like a random walk, as sums do; results of bfloat16 have 8 digits.
    scale = np.sqrt(x.shape[-1]) + 1
    bound = 2.0**-8 * 8 * scale if result == "bfloat16" else 2.0**-23 * scale**2
    assert np.abs(found.astype(wide) - x @ y).max() <= bound


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_products(backend, labels, row, types):
    m, k, n, batch, across_a, across_b = row
    source, result = types
    rng = np.random.default_rng(m + n)
    last = len(batch)
    turn = (*range(last), last + 1, last)
    axes = [turn if across else None for across in (across_a, across_b)]
    shapes = [(*batch, m, k), (*batch, k, n)]
    shapes = [(*batch, *s[:-3:-1]) if o else s for s, o in zip(shapes, axes, strict=True)]
    if source == "int8":
        a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in shapes)
    else:
        a, b = (rng.standard_normal(s).astype(bfloat16.numpy) for s in shapes)
    check(backend, a, b, axes, batch, result)
    assert f"matmul tile registers {32 if m >= 32 else 16}x32" in labels


@pytest.mark.parametrize(
    ("m", "k", "why"),
    [(15, 64, "fewer than 16 rows"), (32, 31, "fewer terms than a step")],
)
def test_other_products_take_another_way(backend, labels, m, k, why):
    a, b = (np.ones(s, bfloat16.numpy) for s in ((m, k), (k, 40)))
    check(backend, a, b, (None, None), (), "bfloat16")
    assert not any("tile registers" in label for label in labels), why


def test_an_infinite_last_term_stays_in_its_column(backend):
    """What fills a step up is zero, whatever the terms before it are."""
    a, b = (np.ones(s, bfloat16.numpy) for s in ((32, 65), (65, 32)))
    b[64, 0] = np.inf
    attributes = {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": bfloat16}
    (found,), _ = run_op(backend, "dot_general", [a, b], attributes, (None, None))
    assert np.isinf(found[:, 0].astype(np.float32)).all()
    assert (found[:, 1:].astype(np.float32) == 65).all()


def test_other_sizes_are_planned_alike(backend):
    made = []
    for m, k, n in ((64, 64, 40), (96, 128, 70), (50, 192, 33), (96, 128, 71)):
        a, b = (np.ones(s, np.int8) for s in ((m, k), (k, n)))
        check(backend, a, b, (None, None), (), "int32")
        made.append(backend.engine(0).replanning.used)
    assert made[-1] > 0
