"""The table of times at the end of `nox -s tests`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import part_times
from part_times import PartTimes

TOOLS = Path(part_times.__file__).parent


class Clock:
    """A clock that parts set forward."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def named(name: str, function: Callable[[float], None]) -> Callable[[float], None]:
    function.__name__ = name
    return function


def test_every_part_has_a_line(clock: Clock) -> None:
    times = PartTimes(clock)

    def works(seconds: float) -> None:
        clock.now += seconds

    def fails(seconds: float) -> None:
        clock.now += seconds
        raise RuntimeError("it failed")

    times.of(named("lint", works))(2.4)
    clock.now += 3
    with pytest.raises(RuntimeError, match="it failed"):
        times.of(named("unit", fails))(61)
    assert times.table(["lint", "unit", "docs"]).splitlines() == [
        "How long each part took:",
        "lint            0 min  2 s",
        "unit            1 min  1 s  did not pass",
        "docs            0 min  0 s  was not run",
        "in all          1 min  6 s",
    ]


@pytest.mark.parametrize("end", ["", "sys.exit(1)", "raise KeyboardInterrupt"])
def test_it_is_printed_last(end: str) -> None:
    program = f"""
import sys
from part_times import PartTimes
times = PartTimes(lambda: 5.0)
times.print_at_exit(["unit"])
times.of(type("Part", (), {{"__name__": "unit", "__call__": lambda self, _: None}})())(0)
print("session unit: success")
{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(TOOLS)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "session unit: success",
        "How long each part took:",
        "unit            0 min  0 s",
        "in all          0 min  0 s",
    ]
    assert (done.returncode != 0) == bool(end)
