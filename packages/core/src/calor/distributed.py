"""The door to calor-distributed: where it is installed, ``calor.distributed`` is that package."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_distributed import *  # noqa: F403 - what type checkers and editors see

open_door("distributed")
