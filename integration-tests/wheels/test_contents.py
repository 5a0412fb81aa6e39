"""What is in the built wheels: the licence, the type marker, no tests, and what they require.

`nox -s wheels` builds them and names their folder in CALOR_DIST.
"""

import os
import re
import tomllib
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path.parent
    for folder in ("packages", "plugins")
    for path in ROOT.glob(f"{folder}/*/pyproject.toml")
)
# The limit keeps the wheel from growing unnoticed. Of what was added to 330.6 kB, sections of
# docstrings (parameters, results, errors) have 39 kB, vmap with its batching rules and jacobians
# 25 kB, the thirteen ops declared by their functions 12 kB, the entries of 65 more modules 17 kB,
# views that are written through 10 kB, other files of weights 8 kB, and memory limits, products of
# scans and resampling 8 kB, traces for each size of code that asks for types 2 kB, gradients of
# what is cast once, left by others or asked for through recomputation 2 kB, values that come from
# other backends without the host 1 kB, tangents of loops and branches 2 kB, and masks by other
# names, things made once a key and random states that leave a device 2 kB, arguments that are held
# against signatures and ranges 6 kB, containers that are looked at each call, lists of tensors
# and running sums 3 kB, numbers that traces hold, kinds of arguments and states behind failures
# 6 kB, trees that go by keys and objects that vmap gives other tensors 2 kB, and objects that
# functions reach through containers, tensors of several names, and sums without the global lock
# 4 kB.
CORE_WHEEL_LIMIT = 567_000

each_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda path: str(path.name))


def package_of(project: Path) -> str:
    name: str = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    return name.replace("-", "_")


def wheel_of(project: Path) -> Path:
    (wheel,) = Path(os.environ["CALOR_DIST"]).glob(f"{package_of(project)}-[0-9]*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@each_project
def test_runs_everywhere(project: Path) -> None:
    assert wheel_of(project).name.endswith("-py3-none-any.whl")


@each_project
def test_is_built_as_core_is(project: Path) -> None:
    """Core alone is built in isolation, which shows that its build needs what it says."""
    systems = [
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["build-system"]
        for folder in (project, ROOT / "packages/core")
    ]
    assert systems[0] == systems[1]


@each_project
def test_carries_the_licence(project: Path) -> None:
    with zipfile.ZipFile(wheel_of(project)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


@each_project
def test_holds_the_package_and_nothing_else(project: Path) -> None:
    wheel = wheel_of(project)
    package = package_of(project)
    assert f"{package}/py.typed" in names_in(wheel)
    folders = {name.partition("/")[0] for name in names_in(wheel)}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {package}
    assert not [name for name in names_in(wheel) if "/tests/" in name]


@each_project
def test_says_what_it_is(project: Path) -> None:
    metadata = metadata_of(wheel_of(project))
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "```" in str(metadata.get_payload()), "the README with its example is the description"


# What installing a project brings, extras apart: a new name here is a decision.
REQUIRED = {
    "calor": "ml-dtypes numpy pluggy",
    "calor-kernel": "calor",
    "calor-cupy": "calor calor-kernel",
    "calor-nn": "calor calor-linalg",
    "calor-conformance": "calor calor-distributed calor-linalg calor-numerics pytest",
    "calor-cpu": "calor calor-kernel llvmlite",
    "calor-cuda": "calor calor-cupy calor-kernel numpy",
    "calor-hip": "calor calor-cupy calor-kernel",
    "calor-opencl": "calor calor-kernel numpy pyopencl",
    "calor-metal": "calor calor-kernel pyobjc-framework-metal",
    "calor-wgpu": "calor calor-kernel numpy wgpu",
    "calor-fusion": "calor calor-kernel",
    "calor-interpreter": "calor calor-kernel",
    "calor-distributed": "calor",
    "calor-distributions": "calor calor-linalg calor-numerics calor-special",
    "calor-drawing": "calor",
    "calor-http": "calor h11 httpx msgpack prometheus-client starlette uvicorn",
    "calor-linalg": "calor",
    "calor-numerics": "calor",
    "calor-router": "calor networkx",
    "calor-special": "calor",
    "calor-onnx": "calor calor-nn onnx",
    "calor-train": "calor calor-nn rich",
    "calor-tuned": "calor",
}


@each_project
def test_requires_what_is_agreed(project: Path) -> None:
    metadata = metadata_of(wheel_of(project))
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    names = [re.findall(r"^[\w-]+", text)[0] for text in required]
    assert sorted(names) == REQUIRED[metadata["Name"]].split()


# What each plugin enters as; no other project enters as anything.
ENTRIES = {
    "calor-conformance": "strict",
    "calor-cpu": "cpu",
    "calor-cuda": "cuda",
    "calor-hip": "hip",
    "calor-opencl": "opencl",
    "calor-metal": "metal",
    "calor-wgpu": "wgpu",
    "calor-fusion": "fuser.elementwise fuser.products fuser.rows",
    "calor-interpreter": "interpreter",
    "calor-linalg": "ops.linalg",
    "calor-special": "ops.special",
    "calor-onnx": "importer.onnx",
    "calor-distributed": "group ops.distributed",
    "calor-http": "http https",
    "calor-router": "router",
    "calor-tuned": "tuned.calor",
}


@each_project
def test_enters_by_the_names_that_are_agreed(project: Path) -> None:
    wheel, points = wheel_of(project), ConfigParser(delimiters="=")
    for name in names_in(wheel):
        if name.endswith(".dist-info/entry_points.txt"):
            with zipfile.ZipFile(wheel) as archive:
                points.read_string(archive.read(name).decode())
    found = dict(points["calor.plugins.v1"]) if points.has_section("calor.plugins.v1") else {}
    entries = ENTRIES.get(metadata_of(wheel)["Name"], "").split()
    assert found == dict.fromkeys(entries, f"{package_of(project)}.plugin")


# Projects that an extra brings with one of theirs: the libraries of the driver that is likeliest.
# What follows the driver is none of what "all" can bring.
WITH_DRIVER = {"calor-cuda": "calor-cuda[cu13]", "calor-hip": "calor-hip[rocm7]"}


def test_extras_of_core_bring_the_other_projects() -> None:
    metadata = metadata_of(wheel_of(ROOT / "packages/core"))
    text = "\n".join(metadata.get_all("Requires-Dist", []))
    names = {str(metadata_of(wheel_of(project))["Name"]) for project in PROJECTS}
    # Devices bring these, which are nothing by themselves.
    wanted = names - {"calor", "calor-kernel", "calor-cupy"}
    for extra in wanted:
        short = extra.removeprefix("calor-")
        brought = re.findall(rf"^(\S+)>=\S+; extra == '{short}'$", text, re.MULTILINE)
        assert brought == [WITH_DRIVER.get(extra, extra)]
    found = set(re.findall(r"^(\S+)>=\S+; extra == 'all'$", text, re.MULTILINE))
    assert found == wanted - set(WITH_DRIVER)


def test_core_is_small() -> None:
    assert wheel_of(ROOT / "packages/core").stat().st_size <= CORE_WHEEL_LIMIT
