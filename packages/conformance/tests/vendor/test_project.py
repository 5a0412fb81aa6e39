"""``python -m calor new-backend``: names, files, refusals, and a project that works at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import calor
from calor.__main__ import main
from calor.errors import ArgumentError
from calor.plugins.entries import API, GROUP
from calor_conformance import project
from calor_conformance.selection import REQUIRED

from .projects import Environment


def test_the_command_writes_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-backend", "acme"]) == 0
    assert capsys.readouterr().out.startswith("calor-acme: a project for the device acme. Next:")
    written = {p.relative_to("calor-acme") for p in Path("calor-acme").rglob("*") if p.is_file()}
    assert written == {Path(path) for path in project.FILES}


def test_every_file_has_the_name_of_the_device() -> None:
    files = project.contents("my_npu")
    assert "src/calor_my_npu/backend.py" in files
    for path, text in files.items():
        assert "acme" not in (path + text).lower(), path
    assert "class MyNpuBackend(OpTable)" in files["src/calor_my_npu/backend.py"]
    table = tomllib.loads(files["pyproject.toml"])["project"]
    assert table["name"] == "calor-my-npu"
    assert table["entry-points"] == {f"{GROUP}{API}": {"my_npu": "calor_my_npu.plugin"}}
    assert table["dependencies"] == [f"calor>={calor.__version__}"]
    assert table["optional-dependencies"] == {"test": [f"calor-conformance>={calor.__version__}"]}


def test_every_place_to_fill_in_says_what_to_do() -> None:
    for path, text in project.contents("acme").items():
        for line in text.splitlines():
            _, there, task = line.partition("TODO: ")
            assert not there or len(task) > 20, f"{path}: {line}"
        assert all(len(line) <= 100 for line in text.splitlines()), path


@pytest.mark.parametrize("text", ["acme", "calor_acme", "calor-acme"])
def test_the_prefix_belongs_to_the_package(text: str) -> None:
    assert project.device_name(text) == "acme"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("My-NPU", "'My-NPU' is not the name of a device; use a .* identifier such as my_npu"),
        ("3d", "'3d' is not the name of a device; use a lower-case Python identifier$"),
        ("", "'' is not the name of a device; use a lower-case Python identifier$"),
        ("a__b", "is not the name of a device"),
        ("numpy", "'numpy' is the name of another device"),
        ("calor_strict", "'strict' is the name of another device"),
        ("cuda", "'cuda' is the name of another device"),
        ("onnx", "'onnx' is the name of another device"),
        ("nn", "calor-nn is the name of another package"),
        ("conformance", "calor-conformance is the name of another package"),
        ("all", "calor-all is the name of another package"),
    ],
)
def test_names_that_would_clash_are_refused(text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        project.device_name(text)


def test_a_folder_that_holds_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["new-backend", "acme", "--directory", str(tmp_path)]) == 1
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ArgumentError, match="exists and is not an empty folder; choose another"):
        project.write("acme", str(tmp_path / "mine.txt"))


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    assert project.write("acme", str(tmp_path)) == tmp_path
    assert (tmp_path / "pyproject.toml").exists()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, Path]:
    folder = tmp_path_factory.mktemp("vendor")
    here = project.write("sample", str(folder / "calor-sample"))
    made = Environment(folder / "site")
    made.install(here)
    return made, here


def test_the_device_is_there_at_once(environment: tuple[Environment, Path]) -> None:
    made, here = environment
    done = made.run("calor", ["devices"], here)
    assert done.returncode == 0, done.stdout
    assert "sample:0 " in done.stdout
    code = "import calor; print(calor.ones(3, device='sample') + 1)"
    assert made.start(["-c", code], here).stdout == "tensor([2., 2., 2.], device='sample:0')\n"


@pytest.mark.slow
def test_its_own_tests_pass_and_the_verdict_says_what_is_missing(
    environment: tuple[Environment, Path],
) -> None:
    made, here = environment
    done = made.run("pytest", ["-p", "no:cacheprovider"], here)
    last = done.stdout.splitlines()[-1]
    assert " 1 failed," in f" {last}", done.stdout
    for name in ("slice", "sum", "max", "dot_general", "cast", "where"):
        assert name in REQUIRED
        assert f"the required op {name} passed in no dtype" in done.stdout
    assert "verdict/basic" in done.stdout
