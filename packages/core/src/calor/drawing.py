"""The door to calor-drawing: where it is installed, ``calor.drawing`` is ``calor_drawing``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_drawing import *  # noqa: F403 - what type checkers and editors see

open_door("drawing")
