"""Do the candidates for tuning give what the first one gives, and is only what fits among them?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.work import Request, View
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.library.matmul.blueprints import packed
from calor_kernel.library.matmul.lowering import lower_dot_general
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime import autotune
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import ONE, check

NAMES = {t.name: t for t in ALL}
NONE = ((), ())
TWO, BATCH = ((2,), (1,)), ((0,), (0,))
# No time is near such a roofline, so that all groups are timed.
FAR = {"ceilings": Ceilings(1e18, 1e18, 1e-18)}
SHARED = replace(MANY_UNITS, planes=(32,), shared_bytes=227 << 10)
DEVICES = {
    "one unit": ONE_UNIT,
    "32 registers": replace(ONE_UNIT, native={"vector_registers": 32}),
    "many units": MANY_UNITS,
    "matrices": replace(SHARED, features=MANY_UNITS.features | {"load_matrix"}),
    "warp groups": replace(
        SHARED, features=MANY_UNITS.features | {"load_matrix", "async_matrix"}, max_units=512
    ),
}


def candidates(device, m, k, n, dtype="float32", along=False, wanted=True, kept=()):
    """Return the candidates for a product, with b transposed in memory if ``along``."""
    known = NAMES[dtype]
    b = View((k, n), (1, k) if along else (n, 1), known)
    attributes = {"contract": ONE, "batch": NONE, "dtype": known}
    views = (View((m, k), (k, 1), known), b)
    info = DEVICES[device]
    return lower_dot_general(
        Request(
            "dot_general",
            attributes,
            views,
            (spec((m, n), known),),
            info,
            kept=frozenset(kept),
            candidates=wanted,
        )
    )


def names(found, *groups):
    return [work.variant for work in found if not groups or work.group in groups]


@pytest.mark.parametrize(
    ("device", "sizes", "first"),
    [
        ("one unit", (64, 64, 64), ["tiles"]),
        ("one unit", (1, 64, 64), ["streams", "tiles"]),
        ("one unit", (2, 64, 64), ["tiles"]),
        ("many units", (64, 64, 64), ["patches"]),
        ("many units", (63, 64, 64), ["predicated SIMT"]),
    ],
)
def test_what_is_not_wanted_changes_nothing(device, sizes, first):
    usual = candidates(device, *sizes, wanted=False)
    assert names(usual) == first
    found = candidates(device, *sizes)
    assert list(found[: len(usual)]) == list(usual)
    assert names(found, 0) == first


@pytest.mark.parametrize(
    ("rows", "kept", "first"),
    [
        (1, (), "streams"),
        (8, (), "streams"),
        (9, (), "packed inside"),
        (9, (1,), "tiles"),
        (2, (1,), "streams"),
        (3, (1,), "tiles"),
    ],
)
def test_few_rows_do_not_convert_what_they_read_once(rows, kept, first):
    assert (
        names(candidates("one unit", rows, 64, 64, "float16", wanted=False, kept=kept))[0] == first
    )


@pytest.mark.parametrize(
    ("device", "sizes", "along", "named"),
    [
        ("one unit", (300, 600, 300), False, {"vectors 1", "lower tiles", "b as it lies"}),
        ("one unit", (90, 1600, 60), False, {"depth 128", "whole depth", "unroll 8", "a packed"}),
        ("32 registers", (300, 300, 300), False, {"vectors 1", "vectors 2", "vectors 3"}),
        ("one unit", (150, 600, 300), False, {"packed inside", "tiles"}),
        ("one unit", (1, 300, 300), False, {"streams 4x2", "b packed"}),
        ("one unit", (6, 300, 300), False, {"streams"}),
        ("one unit", (30, 300, 300), True, {"dots", "dots 2x4"}),
        ("many units", (128, 128, 128), False, {"patches 128x128x8 by 256", "tiled"}),
    ],
)
def test_the_neighbours_of_the_first(device, sizes, along, named):
    found = names(candidates(device, *sizes, along=along))
    assert named <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("device", "sizes", "dtype", "variant", "reason"),
    [
        ("one unit", (60, 64, 64), "float32", "higher tiles", "do not fit 16 registers"),
        ("one unit", (400, 300, 300), "float32", "packed inside", "many blocks of rows"),
        ("one unit", (64, 9999, 64), "float16", "packed inside", "does not fit the memory"),
        ("one unit", (64, 64, 64), "float16", "depths", "rounded to float16"),
        ("32 registers", (64, 64, 8), "float32", "vectors 4", "fewer columns"),
        ("one unit", (1, 64, 64), "float32", "streams 16x1", "do not fit 16 vector registers"),
        ("many units", (64, 64, 64), "float64", "tiled 4x4 by 16x32", "256 units at most"),
        ("matrices", (64, 64, 64), "float16", "fragments 128x256x32 by 256", ""),
    ],
)
def test_what_does_not_fit_says_why(device, sizes, dtype, variant, reason, monkeypatch):
    monkeypatch.setattr(gpu_ways, "_TILED", (*gpu_ways._TILED, (32, 16, 4, 4)))
    if not reason:
        monkeypatch.setitem(DEVICES, device, replace(DEVICES[device], shared_bytes=48 << 10))
        reason = "49152 bytes of shared memory"
    found = candidates(device, *sizes, dtype)
    (dropped,) = [one for one in found.dropped if one.variant == variant]
    assert reason in dropped.reason
    assert variant not in names(found)


@pytest.mark.parametrize(
    ("device", "row", "dtype", "result"),
    [
        ("one unit", ((9, 150), (150, 34), ONE, NONE, (None, None)), "float32", "float32"),
        ("32 registers", ((13, 20), (20, 70), ONE, NONE, (None, (1, 0))), "float32", "float32"),
        ("one unit", ((2, 3, 20), (2, 20, 40), TWO, BATCH, (None, None)), "float64", "float64"),
        ("one unit", ((6, 40), (40, 33), ONE, NONE, (None, (1, 0))), "float16", "float32"),
        ("one unit", ((14, 40), (40, 70), ONE, NONE, (None, None)), "float16", "float32"),
        ("one unit", ((14, 390), (390, 21), ONE, NONE, (None, (1, 0))), "float32", "float32"),
        ("one unit", ((5, 40), (40, 33), ONE, NONE, (None, None)), "int8", "int32"),
        ("one unit", ((4, 9), (9, 20), ONE, NONE, (None, None)), "complex64", "complex64"),
        ("many units", ((72, 40), (40, 104), ONE, NONE, (None, None)), "float32", "float32"),
        ("many units", ((9, 40), (40, 10), ONE, NONE, ((1, 0), None)), "float64", "float64"),
        ("matrices", ((72, 72), (72, 104), ONE, NONE, (None, (1, 0))), "float16", "float32"),
    ],
    ids=str,
)
def test_every_candidate_computes_the_product(device, row, dtype, result, monkeypatch, tmp_path):
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(autotune, "_FEWEST", 1)
    monkeypatch.setattr(autotune, "_MOST", 1)
    monkeypatch.setenv("CALOR_TUNE", "on")
    monkeypatch.setenv("CALOR_TUNE_CHECK", "1")
    info = replace(DEVICES[device], native={**DEVICES[device].native, **FAR})
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, row, dtype, result)
    tuner = backend.engine(0).tuner
    assert tuner.timed >= 6
    monkeypatch.setenv("CALOR_TUNE", "stored")
    again = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(again, row, dtype, result)
    assert again.engine(0).tuner.timed == 0
    assert again.engine(0).tuner.wants("dot_general")


def test_weights_that_stay_are_packed_in_every_variant():
    found = candidates("one unit", 13, 64, 40, kept=(1,))
    packing = [any(la.prepares for la in work.launches) for work in found]
    assert names(found)[packing.index(False)] == "b as it lies"
    assert np.count_nonzero(packing) == len(found) - 1
    assert found[0].launches[-1].build.signature[2].dtype is float32


@pytest.mark.parametrize(
    ("caches", "depth"),
    [((32 << 10,), 256), ((32 << 10, 256 << 10), 256), ((48 << 10, 2 << 20), 768)],
)
def test_passes_over_the_terms_are_as_long_as_the_second_cache_permits(caches, depth):
    info = replace(ONE_UNIT, native={"vector_registers": 32}, caches=caches, vector_bytes=64)
    operand = Operand((0, 0), 4000, 1, 0, float32)
    plan = packed(Product((1, 1), 64, 960, 4000, operand, operand, float32), info)
    assert (plan.depth, plan.rows, plan.vectors, plan.ahead) == (depth, 5, 4, True)
