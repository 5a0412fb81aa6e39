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
# Names that other distributions bring, and the extra that installs each.
BROUGHT = {"signal": "numerics", "diag": "numerics", "random.gamma": "numerics"}
SHUT = """
import sys
sys.modules["calor_{extra}"] = None
import calor
try:
    calor.{name}
except calor.errors.ExtensionError as error:
    print(error)
"""


@pytest.mark.parametrize("name", [*DOORS, *BROUGHT])
def test_what_is_not_installed_says_what_to_install(name: str) -> None:
    extra = BROUGHT.get(name, name)
    command = [sys.executable, "-c", SHUT.format(name=name, extra=extra)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f'calor.{name} is not installed; pip install "calor[{extra}]"\n'


OPEN = """
import sys, types
package, inside = types.ModuleType("calor_{name}"), types.ModuleType("calor_{name}.inside")
package.__path__, package.inside = [], inside
sys.modules |= {{"calor_{name}": package, "calor_{name}.inside": inside}}
import calor.{name}.inside
print(calor.{name} is package, calor.{name}.inside is inside)
"""


@pytest.mark.parametrize("name", DOORS)
def test_behind_an_open_door_every_module_is_there_once(name: str) -> None:
    command = [sys.executable, "-c", OPEN.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_the_doors_are_listed() -> None:
    # In a new process: a door that was opened is listed anyway.
    command = [sys.executable, "-c", "import calor; print(*dir(calor))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*DOORS, "fft", "save", "load", "add"} <= set(done.stdout.split())
