"""The door to calor-fusion: where it is installed, ``calor.fusion`` is ``calor_fusion``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_fusion import *  # noqa: F403 - what type checkers and editors see

open_door("fusion")
