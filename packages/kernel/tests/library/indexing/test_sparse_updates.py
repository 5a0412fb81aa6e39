"""Are updates of some rows of half types those of float32, rounded once, without a wide copy?"""

from random import Random

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor.errors import ElementIndexError
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.indexing.scatter_launch import lower_scatter_nd
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

HALVES = [np.float16, ml_dtypes.bfloat16]
COPIED = ["copy_dense", "scatter links", "scatter add of rows"]


def labels(arrays):
    views = tuple(View.dense(spec(a.shape, as_dtype(a.dtype))) for a in arrays)
    made = spec(arrays[0].shape, as_dtype(arrays[0].dtype))
    (work,) = lower_scatter_nd(Request("scatter_nd", {"update": "add"}, views, (made,), ONE_UNIT))
    return [one.label for one in work.launches], work.in_place


@pytest.mark.parametrize("seed", range(12))
def test_updates_of_some_rows_are_those_of_the_reference(seed):
    random, rng = Random(seed), np.random.default_rng(seed)
    dtype = random.choice(HALVES)
    shape, depth = random.choice([((900, 40), 1), ((64, 9, 7), 2), ((5000,), 1), ((90, 99), 1)])
    picks = random.choice([1, 2, 5, 31])
    # From few rows, so that most are updated several times.
    index = np.stack([rng.integers(-3, 3, picks) for _ in range(depth)], axis=-1)
    arrays = [rng.standard_normal(shape) * 4, index, rng.standard_normal((picks, *shape[depth:]))]
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
    assert labels(arrays)[0] == COPIED
    assert labels(arrays)[1] == ((0, 0),)
    backend = KernelBackend("lanes", lambda _: LanesDevice(ONE_UNIT))
    update = random.choice(["add", "mul", "max", "min"])
    (found,), (wanted,) = run_op(backend, "scatter_nd", arrays, {"update": update})
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_many_updates_convert_the_whole():
    x, index = np.ones((16, 16), np.float16), np.zeros((200, 1), np.int64)
    assert labels([x, index, np.ones((200, 16), np.float16)])[0] != COPIED


@pytest.mark.parametrize("wrong", [900, -901])
def test_indices_out_of_range_are_errors(wrong):
    x, index = np.ones((900, 8), np.float16), np.int64([[0], [wrong], [1]])
    backend = KernelBackend("lanes", lambda _: LanesDevice(ONE_UNIT))
    with pytest.raises(ElementIndexError, match=f"index {wrong} is out of range"):
        run_op(backend, "scatter_nd", [x, index, np.ones((3, 8), np.float16)], {"update": "add"})
