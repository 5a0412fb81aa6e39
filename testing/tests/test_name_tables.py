"""The tool that makes the tables of names, and the pages that hold its output."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORKS = {"torch": "PyTorch", "numpy": "NumPy", "jax": "JAX"}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("name_tables", ROOT / "tools/name_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_markdown(tool: ModuleType, framework: str) -> None:
    lines = tool.markdown(framework).splitlines()
    assert lines[0] == f"| {FRAMEWORKS[framework]} | calor |"
    assert all(line.count("|") == 3 for line in lines if line)


def test_every_keyword_is_one_that_the_errors_know(tool: ModuleType) -> None:
    assert set(tool.WHOSE_KEYWORDS) <= set(tool.KEYWORDS)


@pytest.mark.parametrize(("framework", "page"), [("torch", "from-pytorch"), ("jax", "from-jax")])
def test_pages_hold_the_table(tool: ModuleType, framework: str, page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    begin, end = f"<!-- begin: python tools/name_tables.py {framework} -->", "<!-- end -->"
    held = text.partition(begin)[2].partition(end)[0].strip()
    assert held == tool.markdown(framework), f"put the output of {begin[12:-4]} into the page"
