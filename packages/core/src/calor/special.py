"""The door to calor-special: where it is installed, ``calor.special`` is ``calor_special``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_special import *  # noqa: F403 - what type checkers and editors see

open_door("special")
