"""A thing is made once for each key, and making it keeps nobody waiting who asks for another."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from calor.made_once import MadeOnce


def test_threads_that_ask_for_one_key_get_one_thing() -> None:
    things: MadeOnce[str, object] = MadeOnce()
    barrier = threading.Barrier(6)
    made = []

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask(number: int) -> object:
        barrier.wait()
        return things.of("one", make)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(6)))
    assert len(made) == 1
    assert all(thing is made[0] for thing in found)
    assert things.get("one") is made[0]


def test_making_one_may_wait_for_who_makes_another() -> None:
    things: MadeOnce[str, str] = MadeOnce()
    with ThreadPoolExecutor(1) as pool:

        def make() -> str:
            return pool.submit(things.of, "inner", lambda: "x").result(60) + "y"

        assert things.of("outer", make) == "xy"
    assert things.get("inner") == "x"


def test_the_thread_that_makes_a_thing_may_ask_for_it() -> None:
    things: MadeOnce[str, int] = MadeOnce()
    assert things.of("one", lambda: things.of("one", lambda: 1) + 1) == 2
    assert things.get("one") == 2


def test_what_failed_is_made_by_who_asks_next() -> None:
    things: MadeOnce[str, None] = MadeOnce()

    def fail() -> None:
        raise ValueError("not yet")

    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            things.of("one", fail)
    # None is a thing as well, and is not made again.
    assert things.of("one", lambda: None) is None
    things.of("one", fail)
    # Nothing is left of who asked.
    assert not things._turns


def test_what_is_forgotten_is_made_anew() -> None:
    things: MadeOnce[str, list[int]] = MadeOnce()
    first = things.of("one", list)
    # Another thing of the key stays.
    things.forget("one", [])
    assert things.items() == [("one", first)]
    things.forget("one", first)
    assert things.items() == []
    assert things.of("one", list) is not first


def test_a_child_process_waits_for_no_thread_of_its_parent() -> None:
    things: MadeOnce[str, int] = MadeOnce()
    begun, ends = threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        assert ends.wait(60)
        return 1

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(things.of, "one", make)
        assert begun.wait(60)
        things.unlock()
        assert things.of("one", lambda: 2) == 2
        ends.set()
        assert first.result(60) == 1
