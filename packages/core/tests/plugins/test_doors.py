"""The doors to our other packages: open where these are installed, else a word on how."""

from __future__ import annotations

import subprocess
import sys

import pytest

DOORS = (
    "distributed",
    "distributions",
    "drawing",
    "fusion",
    "linalg",
    "nn",
    "onnx",
    "special",
    "train",
)
SHUT = """
import sys
sys.modules["calor_{name}"] = None
import calor
try:
    calor.{name}
except (calor.errors.PluginError, calor.errors.ExtensionError) as error:
    print(error)
"""


@pytest.mark.parametrize(
    "name",
    [
        "distributed",
        "distributions",
        "drawing",
        "fusion",
        "linalg",
        "nn",
        "onnx",
        "special",
        "train",
    ],
)
def test_a_shut_door_says_what_to_install(name: str) -> None:
    command = [sys.executable, "-c", SHUT.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f'calor.{name} is not installed; pip install "calor[{name}]"\n'


OPEN = """
import sys, types
package, inside = types.ModuleType("calor_{name}"), types.ModuleType("calor_{name}.inside")
package.__path__, package.inside = [], inside
sys.modules |= {{"calor_{name}": package, "calor_{name}.inside": inside}}
import calor.{name}.inside
print(calor.{name} is package, calor.{name}.inside is inside)
"""


@pytest.mark.parametrize(
    "name",
    [
        "distributed",
        "distributions",
        "drawing",
        "fusion",
        "linalg",
        "nn",
        "onnx",
        "special",
        "train",
    ],
)
def test_behind_an_open_door_every_module_is_there_once(name: str) -> None:
    command = [sys.executable, "-c", OPEN.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_the_doors_are_listed() -> None:
    # In a new process: a door that was opened is listed anyway.
    command = [sys.executable, "-c", "import calor; print(*dir(calor))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*DOORS, "fft", "save", "load", "add"} <= set(done.stdout.split())
