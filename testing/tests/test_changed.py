"""Which test files a change reaches: on a small tree, and what real test files load."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import changed_tests
from file_graph import FileGraph

ENTRY = '[project.entry-points."calor.plugins.v1"]\n'
TREE = {
    "conftest.py": 'pytest_plugins = ["helper_of_all"]',
    "testing/helper_of_all.py": "",
    "testing/cases.py": "from calor_kernel import language",
    "packages/core/pyproject.toml": "",
    "packages/core/src/calor/__init__.py": "from importlib import import_module\n"
    "def __getattr__(name): return import_module(f'calor.{name}')",
    "packages/core/src/calor/graph.py": "def draw():\n    from calor.drawing import lines",
    "packages/core/src/calor/drawing.py": "from calor.doors import open_door\n"
    "from calor_drawing import lines",
    "packages/core/src/calor/doors.py": "def open_door(): pass",
    "packages/core/src/calor/devices.py": 'DEFAULT = "gpu"',
    "packages/kernel/pyproject.toml": "",
    "packages/kernel/src/calor_kernel/__init__.py": "",
    "packages/kernel/src/calor_kernel/language.py": "if 0:\n    from calor_kernel import ir",
    "packages/kernel/src/calor_kernel/ir.py": "",
    "packages/kernel/src/calor_kernel/engine.py": "from calor import fusers",
    "packages/kernel/src/calor_kernel/ways.py": 'WAYS = Table("products")',
    "plugins/gpu/pyproject.toml": ENTRY + 'gpu = "calor_gpu.plugin"\n'
    '[project.entry-points."calor_kernel.ways.v1"]\nproducts = "calor_gpu.products:ROWS"',
    "plugins/gpu/src/calor_gpu/products.py": "",
    "plugins/gpu/src/calor_gpu/__init__.py": "",
    "plugins/gpu/src/calor_gpu/plugin.py": "def make():\n    from . import queue",
    "plugins/gpu/src/calor_gpu/queue.py": "from calor_kernel import language",
    "plugins/fusion/pyproject.toml": ENTRY + '"fuser.rows" = "calor_fusion.plugin"',
    "plugins/fusion/src/calor_fusion/__init__.py": "",
    "plugins/fusion/src/calor_fusion/plugin.py": "",
    "plugins/drawing/pyproject.toml": "",
    "plugins/drawing/src/calor_drawing/__init__.py": "from .lines import draw_line",
    "plugins/drawing/src/calor_drawing/lines.py": "",
    "packages/core/tests/test_plain.py": '"""Not on "gpu"."""\nimport calor',
    "packages/core/tests/test_device.py": 'import calor\ncalor.ones(2, device="group:gpu,gpu:1")',
    "packages/core/tests/test_all_devices.py": "import calor\ncalor.devices()",
    "packages/core/tests/test_draw.py": "import calor\ncalor.trace().draw()",
    "packages/core/tests/test_program.py": "run('import calor, calor_gpu.queue')",
    "packages/kernel/tests/conftest.py": "from calor_kernel import ir",
    "packages/kernel/tests/deep/__init__.py": "",
    "plugins/gpu/tests/test_ways.py": "from calor_kernel import ways",
    "packages/kernel/tests/deep/test_cases.py": "import cases",
    "packages/kernel/tests/deep/test_engine.py": "from calor_kernel.engine import fusers",
    "packages/kernel/tests/deep/test_beside.py": "from .test_engine import x",
    "packages/kernel/tests/test_text.py": "def test(p): p.read_text()",
    "integration-tests/third_party/test_it.py": "import calor",
}
CORE = {"test_plain", "test_device", "test_all_devices", "test_draw", "test_program", "test_engine"}
CORE |= {"test_beside"}
REST = {"test_ways", "test_cases", "test_text"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for name, text in TREE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


REACHED: Mapping[str, set[str]] = {
    "packages/core/src/calor/graph.py": CORE,
    "packages/core/src/calor/devices.py": CORE,
    "packages/kernel/src/calor_kernel/ir.py": {
        "test_device", "test_all_devices", "test_program", "test_cases", "test_engine",
        "test_beside",
    },
    "plugins/gpu/src/calor_gpu/plugin.py": {"test_device", "test_all_devices"},
    "plugins/gpu/src/calor_gpu/queue.py": {"test_device", "test_all_devices", "test_program"},
    "plugins/gpu/src/calor_gpu/products.py": {"test_ways"},
    "plugins/fusion/src/calor_fusion/plugin.py": {
        "test_engine", "test_beside", "test_all_devices",
    },
    "plugins/drawing/src/calor_drawing/lines.py": {"test_draw"},
    "testing/cases.py": {"test_cases"},
    "packages/kernel/tests/conftest.py": {"test_cases", "test_engine", "test_beside"},
    "packages/kernel/tests/deep/test_engine.py": {"test_engine", "test_beside"},
    "packages/kernel/tests/deep/__init__.py": {"test_cases", "test_engine", "test_beside"},
    "packages/core/tests/test_plain.py": {"test_plain"},
    "changes/+new.added.md": set(),
    "docs/guide/index.md": set(),
    "packages/core/tests/rows.json": CORE | REST,
    "pyproject.toml": CORE | REST,
    "conftest.py": CORE | REST,
    "testing/helper_of_all.py": CORE | REST,
    "packages/core/src/calor/gone.py": CORE | REST,
}  # fmt: skip


@pytest.mark.parametrize("name", REACHED)
def test_a_change_reaches(tree: Path, name: str) -> None:
    found = changed_tests.picked(tree, [tree / name])
    assert {path.stem for path in found} == REACHED[name] | {"test_text"}


def test_no_change_reaches_nothing(tree: Path) -> None:
    assert changed_tests.picked(tree, []) == []


def test_what_differs_from_the_base(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(*names: str) -> None:
        for name in names:
            (tmp_path / name).write_text(f"{name} {len(list(tmp_path.iterdir()))}", "utf-8")

    git("init", "-b", "main")
    write("kept", "edited", "renamed", "committed")
    git("add", ".")
    git("commit", "-m", "the base")
    git("checkout", "-b", "work")
    write("committed")
    (tmp_path / "renamed").rename(tmp_path / "new name")
    git("add", ".")
    git("commit", "-m", "a change")
    write("edited", "unknown")
    found = {path.name for path in changed_tests.changed_files("main", tmp_path)}
    assert found == {"committed", "edited", "renamed", "new name", "unknown"}


# Test files that load plugins, run programs, open doors or take fusers.
LOADING = (
    "packages/conformance/tests/test_running.py",
    "packages/core/tests/graph/test_partition.py",
    "packages/core/tests/plugins/test_registry.py",
    "packages/kernel/tests/planning/test_replanning.py",
    "packages/nn/tests/test_module.py",
    "plugins/cpu/tests/test_device.py",
    "plugins/distributed/tests/test_collectives.py",
    "plugins/onnx/tests/test_import.py",
    "plugins/train/tests/test_optimizers.py",
)
PLUGIN = """
import json, sys
from pathlib import Path

def pytest_unconfigure(config):
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    Path(__file__).with_name("loaded.json").write_text(json.dumps([f for f in files if f]))
"""


@pytest.fixture(scope="module")
def graph() -> FileGraph:
    return FileGraph(changed_tests.ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADING)
def test_a_test_file_loads_only_what_it_reaches(
    graph: FileGraph, tmp_path: Path, name: str
) -> None:
    (tmp_path / "notes_loaded.py").write_text(PLUGIN, "utf-8")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import pytest
sys.exit(pytest.main(["-q", "-p", "notes_loaded", "-p", "no:cacheprovider", sys.argv[1]]))
"""
    subprocess.run([sys.executable, "-c", program, name], cwd=graph.root, check=True)
    loaded = set(map(Path, json.loads((tmp_path / "loaded.json").read_text("utf-8"))))
    everywhere = set().union(*map(graph.reached, changed_tests.always(graph)))
    found = (loaded & set(graph.edges)) - everywhere - graph.reached(graph.root / name)
    assert not found
