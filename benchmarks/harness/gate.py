"""A gate that processes pass one at a time, so that each is alone on a device while it measures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def in_turn(gate: Path | None) -> Iterator[None]:
    """Hold a gate; None is no gate.

    Processes that are given the same file compile and check side by side, and measure in turns.
    Other processes' checks may still delay a sample, so what is measured is the least of several.
    """
    if gate is None:
        yield
        return
    import fcntl

    with gate.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Closing the file opens the gate again, also where the process is killed.
        yield
