"""The door to calor-nn: where it is installed, ``calor.nn`` is ``calor_nn``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_nn import *  # noqa: F403 - what type checkers and editors see

open_door("nn")
