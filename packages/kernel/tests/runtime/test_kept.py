"""What is made for handles is found by their identities, and the oldest is made into the new."""

import itertools
from collections.abc import Sequence

from calor_kernel.device.launch_cache import Kept
from calor_kernel.device.words import Piece


def test_equal_handles_that_are_others_are_told_apart() -> None:
    count = itertools.count(1)
    kept = Kept(lambda handles, oldest: next(count), 4)
    first, second = Piece("a", 0, 4), Piece("a", 0, 4)
    assert first == second
    assert [kept((first,)), kept((second,)), kept([first])] == [1, 2, 1]


def test_the_oldest_is_made_into_the_new() -> None:
    changed: list[list[str] | None] = []

    def prepare(handles: Sequence[str], oldest: list[str] | None) -> list[str]:
        changed.append(oldest)
        return [*handles]

    kept = Kept(prepare, 2)
    a, b, c = "a", "b", "c"
    first, second = kept((a,)), kept((b,))
    assert kept((a,)) is first
    assert kept((c,)) == ["c"]
    assert changed == [None, None, first]
    assert kept((b,)) is second
    assert kept((a,)) == ["a"]
    assert changed[3] is second


def test_what_failed_is_not_kept() -> None:
    def prepare(handles: Sequence[str], oldest: str | None) -> str:
        if fails:
            raise ValueError
        return oldest or "new"

    kept, fails = Kept(prepare, 1), False
    x, y = "x", "y"
    assert kept((x,)) == "new"
    fails = True
    try:
        kept((y,))
    except ValueError:
        fails = False
    assert kept((y,)) == "new"
