"""The door to calor-onnx: where it is installed, ``calor.onnx`` is ``calor_onnx``."""

from typing import TYPE_CHECKING

from calor.doors import open_door

if TYPE_CHECKING:
    from calor_onnx import *  # noqa: F403 - what type checkers and editors see

open_door("onnx")
