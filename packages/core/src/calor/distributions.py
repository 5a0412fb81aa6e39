"""The door to calor-distributions, which ``calor.distributions`` is where it is installed."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_distributions import *  # noqa: F403 - what type checkers and editors see

open_door("distributions")
