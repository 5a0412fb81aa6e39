"""The tool that sets the version of every project."""

import datetime
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "version.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("version_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_project_gets_it(tool: ModuleType, tmp_path: Path) -> None:
    for name in ("packages/core", "plugins/train"):
        (tmp_path / name).mkdir(parents=True)
        text = '[project]\nversion = "0.1.0.dev0"\ndependencies = ["calor>=0.1.0.dev0"]\n'
        (tmp_path / name / "pyproject.toml").write_text(text)
    tool.main(["0.1.0"], tmp_path)
    for path in tool.project_files(tmp_path):
        assert path.read_text() == (
            '[project]\nversion = "0.1.0"\ndependencies = ["calor>=0.1.0.dev0"]\n'
        )


def test_dated(tool: ModuleType) -> None:
    text = 'version = "0.1.0.dev0"\n'
    assert tool.dated(text, datetime.date(2030, 1, 5)) == "0.1.0.dev20300105"


def test_a_file_without_a_version_is_an_error(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match="one line `version"):
        tool.set_version("[project]\n", "0.1.0")
