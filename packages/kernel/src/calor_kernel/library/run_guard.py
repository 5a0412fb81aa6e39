"""The guard of a run: one word that stops the launches that write state in place.

Requirements: the host never waits to know that a run did not fail. A guard that is set stays set,
so runs that were queued behind a failed one change nothing either.
"""

from __future__ import annotations

from functools import lru_cache

from calor.dtypes import uint32
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output

# The words of other runs that a guard reads.
ABOVE_WORDS = 8
# The guard of a run, the runs that passed, copies of words of other runs, and the status words of
# the first failed run.
GUARD, PASSED, ABOVE, FIRST = 0, 1, 2, 2 + ABOVE_WORDS


@kl.kernel
def close_guard(words: kl.InOut, *, count: int, step: int, at: int) -> None:
    """Set the guard at word ``at`` if a status word or a word of another run is set.

    ``count``: the number of status words, which are ``step`` words apart.
    """
    if words[at + GUARD] == 0:
        found = words[at + ABOVE]
        for i in range(1, ABOVE_WORDS):
            found = found | words[at + ABOVE + i]
        for i in range(count):
            found = found | words[i * step]
        if found == 0:
            words[at + PASSED] = words[at + PASSED] + kl.constant(1, uint32)
        else:
            words[at + GUARD] = kl.constant(1, uint32)
            for i in range(count):
                words[at + FIRST + i] = words[i * step]


@lru_cache
def guard_launch(count: int, step: int) -> Launch:
    """Return the launch that sets a guard behind so many status words, ``step`` words apart.

    Its argument is the block of these words, with the guard behind them.
    """
    return launch(
        close_guard,
        Grid.line(1),
        Effort("guard"),
        words=Bound(Output(), uint32),
        count=count,
        step=step,
        at=count * step,
    )
