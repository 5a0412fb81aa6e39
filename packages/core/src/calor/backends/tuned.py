"""What tuning measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tuned:
    """What :func:`calor.tune` measured.

    Parameters
    ----------
    problems : int, optional
        The kinds of problems with more than one candidate kernel.
    timed : int, optional
        The candidates that were timed; results of earlier runs are not timed again.
    changed : int, optional
        The problems for which another candidate than the first choice is the fastest.
    left : int, optional
        The problems for which no time was left.
    seconds : float, optional
        How long it took, in seconds.
    """

    problems: int = 0
    timed: int = 0
    changed: int = 0
    left: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """Return a line for people."""
        text = (
            f"problems: {self.problems}; candidates timed: {self.timed}, in {self.seconds:.1f} s; "
            f"problems with a faster kernel than the first choice: {self.changed}"
        )
        if self.left:
            text += f"; no time was left for {self.left}, so tune with more seconds"
        return text
