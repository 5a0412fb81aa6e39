"""Pools: how many threads, when they start and leave, and what happens around them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from calor.errors import ArgumentError, DeviceError
from calor_cpu.pool import Plan, Pool, Record, default_threads
from calor_kernel.device.protocol import Slot

from .kernels import ADD, SLOW, function, memory

# Workers of other pools, such as the device's where earlier tests of the process have used it.
OTHERS = set()


@pytest.fixture(autouse=True)
def others():
    OTHERS.clear()
    OTHERS.update(threading.enumerate())


@pytest.fixture
def pool():
    pool = Pool(3)
    yield pool
    pool.close()


def adding(pool, cubes=64):
    return Plan(pool, [Record(function(ADD), (Slot(0),), (cubes, 1, 1), 1)], 1)


def started():
    return [t for t in threading.enumerate() if t.name.startswith("calor-cpu") and t not in OTHERS]


def workers():
    return sorted(t.name for t in started())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("", None)] + [(text, ArgumentError) for text in ("0", "two", "99999")],
)
def test_the_environment_says_how_many(monkeypatch, text, expected):
    monkeypatch.setenv("CALOR_CPU_THREADS", text)
    if expected is ArgumentError:
        with pytest.raises(ArgumentError, match="set it to a number from 1 to"):
            default_threads()
    else:
        available = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        assert default_threads() == (expected or len(available(0)))


@pytest.mark.parametrize("threads", [0, -1, 99_999])
def test_a_pool_has_a_thread(pool, threads):
    with pytest.raises(ArgumentError, match="pass a number from 1 to"):
        Pool(threads)
    with pytest.raises(ArgumentError, match="pass a number from 1 to"):
        pool.set_threads(threads)


def test_workers_start_with_the_first_parallel_launch_and_leave(pool):
    assert workers() == []
    plan = adding(pool)
    _, address = memory(64)
    Plan(pool, [Record(function(ADD), (Slot(0),), (64, 1, 1), 0)], 1)([address])
    assert workers() == []
    plan([address])
    assert workers() == ["calor-cpu-1", "calor-cpu-2"]
    pool.stop()
    assert workers() == []
    plan([address])
    assert len(workers()) == 2
    pool.close()
    assert workers() == []
    plan([address])
    assert workers() == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no masks of processors")
@pytest.mark.parametrize("threads", [2, 3, 20])
def test_workers_are_kept_off_the_callers_processor(threads):
    pool = Pool(threads)
    plan = adding(pool)
    _, address = memory(64)
    allowed = os.sched_getaffinity(0)
    names = {f"calor-cpu-{number}" for number in range(1, threads)}
    try:
        for home in sorted(allowed):
            # Who starts the workers may run everywhere, and so may they but for one processor.
            plan([address])
            os.sched_setaffinity(0, {home})
            plan([address])
            found = [t.native_id for t in started() if t.name in names]
            masks = [os.sched_getaffinity(number) for number in found]
            os.sched_setaffinity(0, allowed)
            expected = allowed - {home} or allowed
            assert len(masks) == threads - 1
            assert masks.count(expected) >= min(threads - 1, 15)
    finally:
        os.sched_setaffinity(0, allowed)
        pool.close()


@pytest.mark.parametrize("counts", [(1, 4, 2), (5, 1, 5)])
def test_the_number_of_threads_changes_between_launches(pool, counts):
    plan = adding(pool)
    out, address = memory(64)
    for threads in counts:
        pool.set_threads(threads)
        plan([address])
        assert pool.threads == threads
        assert len(workers()) == threads - 1
    assert list(out) == [len(counts) * i for i in range(64)]


def test_the_number_of_threads_changes_during_launches(pool):
    plan = adding(pool)
    out, address = memory(64)
    over = threading.Event()
    runs = 0

    def run():
        nonlocal runs
        while not over.is_set():
            plan([address])
            runs += 1

    thread = threading.Thread(target=run)
    thread.start()
    for change in range(100):
        pool.set_threads(change % 4 + 1)
    over.set()
    thread.join()
    assert runs > 0
    assert list(out) == [runs * i for i in range(64)]


def test_closing_ends_runs_at_their_next_record(pool):
    plan = Plan(pool, [Record(function(SLOW), (), (4, 1, 1))] * 10_000, 0)
    caught = []

    def run():
        try:
            plan([])
        except DeviceError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    pool.close()
    thread.join(10)
    assert caught == ["the pool was closed while a plan ran; its results are undefined"]


def test_the_interpreters_lock_is_free_during_a_long_plan(pool):
    plan = Plan(pool, [Record(function(SLOW), (), (400, 1, 1))], 0)
    thread = threading.Thread(target=plan, args=([],))
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 100


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another process")
@pytest.mark.parametrize("way", ["call", "seconds"])
def test_an_interrupt_ends_a_long_plan_which_can_run_again(pool, way):
    plan = Plan(pool, [Record(function(SLOW), (), (4, 1, 1))] * 10_000, 0)
    run = plan if way == "call" else plan.seconds
    for _ in range(2):
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run([])
        timer.join()
        assert time.monotonic() - begin < 2


FORK = """
import os, sys
pool = Pool(3)
plan = adding(pool)
out, address = memory(64)
plan([address])
for depth in range(3):
    child = os.fork()
    if child:
        plan([address])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ok = list(out) == [(depth + 2) * i for i in range(64)]
        print(depth, status, ok, flush=True)
        break
    assert not pool.started
    plan([address])
    assert pool.started
    if depth == 2:
        break
sys.exit(0)
"""

BUSY_FORK = """
import os, threading
pool = Pool(2)
slow = Plan(pool, [Record(function(SLOW), (), (8, 1, 1), 1)] * 50, 0)
thread = threading.Thread(target=slow, args=([],))
thread.start()
out, address = memory(64)
plan = adding(pool)
plan([address])
child = os.fork()
plan([address])
slow([])
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), list(out)[:3])
    thread.join()
"""

EXIT = """
pool = Pool(3)
out, address = memory(64)
adding(pool)([address])
assert pool.started
print(sum(out))
"""

DAEMON = """
import threading, time
pool = Pool(2)
slow = Plan(pool, [Record(function(SLOW), (), (64, 1, 1), 1)] * 100_000, 0)
def forever():
    while True:
        slow([])
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
print("end")
"""

# What was registered first is called last: when the pool has left.
AT_EXIT = """
import atexit
@atexit.register
def late():
    plan([address])
    print(sum(out))
"""

LATE = """
out, address = memory(64)
plan = adding(Pool(2))
plan([address])
"""

PRELUDE = """
import sys, warnings
warnings.simplefilter("error")
sys.path.insert(0, {folder!r})
from calor_cpu.pool import Plan, Pool, Record
from calor_kernel.device.protocol import Slot
from kernels import ADD, SLOW, function, memory
def adding(pool):
    return Plan(pool, [Record(function(ADD), (Slot(0),), (64, 1, 1), 1)], 1)
"""


def run(program, before=""):
    text = before + PRELUDE.format(folder=str(Path(__file__).parent)) + program
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (FORK, ["2 0 True", "1 0 True", "0 0 True"]),
        (BUSY_FORK, ["0 [0, 2, 4]"]),
    ],
    ids=["fork", "busy"],
)
def test_a_forked_child_has_workers_of_its_own(program, lines):
    assert run(program).splitlines() == lines


@pytest.mark.parametrize(
    ("program", "line"), [(EXIT, str(sum(range(64)))), (DAEMON, "end")], ids=["idle", "busy"]
)
def test_the_interpreter_ends(program, line):
    begin = time.monotonic()
    assert run(program).splitlines() == [line]
    assert time.monotonic() - begin < 10


def test_a_plan_runs_at_exit_when_the_workers_have_left():
    assert run(LATE, before=AT_EXIT).splitlines() == [str(2 * sum(range(64)))]
