"""The door to calor-linalg: where it is installed, ``calor.linalg`` is ``calor_linalg``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_linalg import *  # noqa: F403 - what type checkers and editors see

open_door("linalg")
