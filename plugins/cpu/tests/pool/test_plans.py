"""Plans: what runs, with which arguments, divided how, and what a failed one says."""

import threading
import weakref

import pytest

from calor.dtypes import bfloat16, bool_, float32, float64, int8, int64, uint64
from calor.errors import ArgumentError
from calor_cpu.pool import KernelFailure, Plan, Pool, Record, bits
from calor_cpu.pool.system import system
from calor_kernel.device.protocol import Slot

from .kernels import ADD, ARGUMENTS, CHUNKS, FAIL, SLOW, function, memory

SHORT = 1e-9


@pytest.fixture(scope="module", params=[1, 2, 3, 8])
def pool(request):
    pool = Pool(request.param)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def pair():
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.mark.parametrize("grain", [0, 1, 7, 64, 1000])
@pytest.mark.parametrize("cubes", [0, 1, 2, 63, 64, 65, 1000, 40001])
@pytest.mark.parametrize("seconds", [SHORT, None])
def test_each_cube_runs_once(pool, cubes, grain, seconds):
    plan = Plan(pool, [Record(function(ADD), (Slot(0),), (cubes, 1, 1), grain)], 1, seconds=seconds)
    out, address = memory(cubes + 1)
    for _ in range(3):
        plan([address])
    assert list(out) == [3 * i for i in range(cubes)] + [0]


@pytest.mark.parametrize("spin", [0, 1_000_000])
@pytest.mark.parametrize("how", ["linux", "freebsd"])
def test_each_cube_runs_once_however_threads_sleep(how, spin):
    pool = Pool(4, spin=spin, target=system(how))
    plan = Plan(pool, [Record(function(ADD), (Slot(0),), (100, 1, 1), 1)] * 5, 1)
    out, address = memory(100)
    for _ in range(300):
        plan([address])
    pool.close()
    assert list(out) == [1500 * i for i in range(100)]


@pytest.mark.parametrize(
    ("cubes", "grain", "largest", "count"),
    [
        (320, 10, 10, 32),
        (330, 10, 10, 33),
        (31, 30, 30, 2),
        (80, 1, 2, 47),
        (10**6, 1, 31248, 83),
        (2**30, 1, 33554944, 83),
    ],
)
def test_chunks_are_whole_grains_and_smaller_at_the_end(pair, cubes, grain, largest, count):
    out, address = memory(2)
    Plan(pair, [Record(function(CHUNKS), (Slot(0),), (cubes, 1, 1), grain)], 1)([address])
    assert list(out) == [largest, count]


def test_arguments_are_addresses_with_offsets_scalars_and_counts(pair):
    out, address = memory(8)
    arguments = (Slot(1, 16), bits(-3, int64))
    plan = Plan(pair, [Record(function(ARGUMENTS), arguments, (5, 6, 7))], 2)
    plan([0, address])
    assert list(out) == [0, 0, -3, 5, 6, 7, 0, 0]
    plan([0, address + 16])
    assert list(out) == [0, 0, -3, 5, -3, 5, 6, 7]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, float32, 0x3F800000),
        (-2.0, float64, 0xC000000000000000),
        (1.0, bfloat16, 0x3F80),
        (-1, int8, 0xFF),
        (2**64 - 1, uint64, 2**64 - 1),
        (True, bool_, 1),
    ],
)
def test_bits_are_low_in_the_slot(value, dtype, expected):
    assert bits(value, dtype) == expected


def test_records_run_in_order_and_are_timed(pair):
    slow = Record(function(SLOW), (), (4, 1, 1))
    fast = Record(function(SLOW), (), (0, 1, 1))
    seconds = Plan(pair, [slow, fast, slow], 0).seconds([])
    assert len(seconds) == 3
    assert seconds[0] > seconds[1] < seconds[2]


@pytest.mark.parametrize("cubes", [1, 100])
@pytest.mark.parametrize("seconds", [SHORT, None])
def test_a_failed_kernel_ends_the_run_after_its_launch(pair, seconds, cubes):
    add = Record(function(ADD), (Slot(0),), (2, 1, 1))
    fail = Record(function(FAIL), (Slot(1),), (cubes, 1, 1), 1)
    plan = Plan(pair, [add, fail, add], 2, seconds=seconds)
    (out, a), (code, b) = memory(2), memory(1)
    code[0] = 7
    with pytest.raises(KernelFailure, match="launch 1 of a plan failed with code 7") as caught:
        plan([a, b])
    assert (caught.value.record, caught.value.code) == (1, 7)
    assert list(out) == [0, 1]
    code[0] = 0
    plan([a, b])
    assert list(out) == [0, 3]


@pytest.mark.parametrize(("threads", "spin"), [(2, 20_000), (5, 0), (5, 1000)])
def test_threads_run_one_plan_at_once_each_with_its_addresses(threads, spin):
    pool = Pool(threads, spin=spin)
    plan = Plan(pool, [Record(function(ADD), (Slot(0),), (64, 1, 1), 1)] * 2, 1)
    blocks = [memory(64) for _ in range(3)]
    runs = 3334

    def run(address):
        for _ in range(runs):
            plan([address])

    callers = [threading.Thread(target=run, args=(address,)) for _, address in blocks]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    pool.close()
    for block, _ in blocks:
        assert list(block) == [2 * runs * i for i in range(64)]


@pytest.mark.parametrize("given", [[], [0, 0]])
def test_a_plan_wants_an_address_for_each_slot(pair, given):
    plan = Plan(pair, [Record(function(ADD), (Slot(0),), (0, 1, 1))], 1)
    with pytest.raises(
        ArgumentError, match=f"takes 1 addresses, one for each slot, not {len(given)}"
    ):
        plan(given)
    with pytest.raises(
        ArgumentError, match=f"takes 1 addresses, one for each slot, not {len(given)}"
    ):
        plan.seconds(given)


def test_an_address_is_an_integer(pair):
    plan = Plan(pair, [Record(function(ADD), (Slot(0),), (2, 1, 1))], 1)
    with pytest.raises(TypeError, match="integer"):
        plan(["address"])
    out, address = memory(2)
    plan([address])
    assert list(out) == [0, 1]


def test_the_built_in_function_outlives_its_plan_and_frees_it():
    pool = Pool(2)
    kept = type("Kept", (), {})()
    alive = weakref.ref(kept)
    call = Plan(pool, [Record(function(ADD), (Slot(0),), (64, 1, 1), 1)], 1, keep=kept).call
    del kept
    out, address = memory(64)
    assert call(address) is None
    assert list(out) == list(range(64))
    assert alive() is not None
    del call
    assert alive() is None
    pool.close()
