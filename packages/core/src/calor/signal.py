"""The door to the signals of calor-numerics, which ``calor.signal`` is where it is installed."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_numerics.signal import *  # noqa: F403 - what type checkers and editors see

open_door("signal", "calor_numerics.signal")
