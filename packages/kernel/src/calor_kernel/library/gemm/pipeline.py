"""The order of a main loop: stages of shared memory are filled ahead of the work on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calor_kernel import language as kl

Loader = Callable[[kl.Pipeline, kl.Number], None]
"""Starts copying an operand's part of the step that begins at a term, to the stage acquired."""


@kl.helper
def accumulate(
    pipe: kl.Pipeline,
    loaders: Sequence[Loader],
    work: Callable[[kl.Number], None],
    first: kl.Index,
    last: kl.Index,
    step: int,
) -> None:
    """Work on the terms from a first to a last one, ``step`` terms at a time."""

    def take(at: kl.Number) -> None:
        for load in loaders:
            load(pipe, at)

    fill_ahead(pipe, take, first, step)
    work_through(pipe, take, work, first, last, step)


@kl.helper
def fill_ahead(
    pipe: kl.Pipeline, take: Callable[[kl.Number], None], first: kl.Index, step: int
) -> None:
    """Start the copies of all stages but one; ``take(position)`` copies one stage."""
    for turn in range(pipe.stages - 1):
        pipe.acquire()
        take(first + turn * step)  # type: ignore[arg-type]
        pipe.commit()


@kl.helper
def work_through(
    pipe: kl.Pipeline,
    take: Callable[[kl.Number], None],
    work: Callable[[kl.Number], None],
    first: kl.Index,
    last: kl.Index,
    step: int,
) -> None:
    """Work on stage after stage while later ones are copied; the first copies have been started."""
    ahead = (pipe.stages - 1) * step
    for at in kl.loop_range(first, last, step):
        pipe.wait()
        pipe.acquire()
        take(at + ahead)
        pipe.commit(later=True)
        work(at)
        pipe.release()


@kl.helper
def pass_over(pipe: kl.Pipeline) -> None:
    """Release the stages copied ahead of the last one, so that another loop may follow."""
    for _ in range(pipe.stages - 1):
        pipe.wait(0)
        pipe.release()
