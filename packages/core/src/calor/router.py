"""The door to calor-router: where it is installed, ``calor.router`` is that package."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_router import *  # noqa: F403 - what type checkers and editors see

open_door("router")
