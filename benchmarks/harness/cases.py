"""What a suite consists of.

A suite is a module in `benchmarks/suites/` with a function `cases(device)` that returns its cases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Call = Callable[[], Any]


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A result of any library on the host, without its gradient record."""
    if type(value).__module__.startswith("torch"):
        value = value.detach().cpu()
    return np.asarray(value)


def agree(ours: Any, theirs: Any) -> None:
    """Raise AssertionError unless two results, or sequences of them, are equal within 1e-5."""
    if ours is None and theirs is None:
        return
    if isinstance(ours, tuple | list):
        assert len(ours) == len(theirs), f"{len(ours)} results beside {len(theirs)}"
        for mine, yours in zip(ours, theirs, strict=True):
            agree(mine, yours)
        return
    np.testing.assert_allclose(as_array(ours), as_array(theirs), rtol=1e-5, atol=1e-6)


@dataclass(frozen=True)
class Case:
    """One measurement: the same work by calor and by its peers.

    `ours()` and each `peers[name]()` prepare the work (inputs, compilation) and return a function
    of no arguments. That function does the work once, waits until it is done, and returns the
    result, or None where there is nothing to compare. `inner` is how often it is called for one
    sample; None chooses a number that makes a sample long enough for the clock. A call that does
    `units` pieces of work is reported per piece. `check(ours, theirs)` raises AssertionError on
    results that differ. `floor()` is the time in seconds per piece that the machine's measured
    ceilings allow. `awake`: a sample follows at once on a call that is not timed, since a device
    that has rested takes a while to begin, and one driver longer than another.
    """

    name: str
    ours: Callable[[], Call]
    peers: Mapping[str, Callable[[], Call]] = field(default_factory=dict)
    check: Callable[[Any, Any], None] = agree
    floor: Callable[[], float] | None = None
    inner: int | None = None
    units: int = 1
    awake: bool = False
