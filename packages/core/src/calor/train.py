"""The door to calor-train: where it is installed, ``calor.train`` is ``calor_train``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_train import *  # noqa: F403 - what type checkers and editors see

open_door("train")
