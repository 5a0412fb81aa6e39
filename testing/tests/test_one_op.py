"""An elementwise op is added in three files; everything else that knows ops follows from them.

The op is added to a copy of the sources, and a process that imports the copy looks for it.
"""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = ("packages/core", "packages/kernel", "packages/conformance", "plugins/cpu")
CORE, KERNEL = "packages/core/src/calor", "packages/kernel/src/calor_kernel"

ROW = '''

@elementwise(
    rules.real_floats,
    lambda x: e.sin(x * 0.5) * e.sin(x * 0.5) * 2,
    reference=reference.versine,
    derivatives=(lambda y, x: e.sin(x),),
    saves=("0",),
    checks=(Check(((-3, 3),)),),
    method=True,
)
def versine(x: Operand, /) -> Tensor:
    """Return 1 − cos(x), accurate close to 0.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in radians, any shape; any real dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.versine(calor.asarray(0.0)).item()
    0.0
    """
'''
REFERENCE = '''

@through_float32
def versine(x: Array) -> Array:
    """Return 1 − cos(x), also close to 0."""
    return np.asarray(2 * np.sin(x / 2) ** 2)
'''
EXPRESSION = """

@row("versine", weight=75, bound=Bound(2.0, 2.0))
def _versine(x: Number) -> Number:
    half = math.sin(x * 0.5)
    return half * half * 2.0
"""
# File: what stands there and what takes its place; "" is the end.
EDITS = {
    f"{CORE}/functions/signals.py": [
        ('"sinc"]', '"sinc", "versine"]'),
        ("", ROW),
    ],
    f"{CORE}/reference/elementwise.py": [("", REFERENCE)],
    f"{KERNEL}/library/elementwise/functions.py": [("", EXPRESSION)],
}
LOOKS = """
import inspect, sys

import numpy as np

import calor
import declared_methods
import reference_pages
from calor.plugins.discovery import get_device
from calor.functions.rows import METHODS
from calor.graph.decompose import decompose
from calor.ops.base import find
from calor_conformance import running, suite
from calor_conformance.rows.tables import CASES
from calor_kernel.library.elementwise import ROWS

assert calor.__file__.startswith(sys.argv[1]), calor.__file__
# Exports, the method, signature and documentation.
assert "versine" in calor.__all__
assert calor.Tensor.versine is calor.versine
assert "def versine(self, /) -> Self: ..." in declared_methods.text(METHODS)
assert str(inspect.signature(calor.versine)) == "(x: 'Operand', /) -> 'Tensor'"
assert "accurate close to 0" in calor.versine.__doc__
pages = reference_pages.core_pages(calor)
assert "autofunction:: calor.versine\\n" in pages["Element by element"]
assert "| `versine` |  | yes | composite |" in reference_pages.op_table()
# Values, promotion, gradients of both modes and jit, on the reference and with a kernel.
x = np.linspace(-3, 3, 7, dtype=np.float32)
for device in ("numpy", "cpu"):
    with calor.device(device):
        t = calor.asarray(x)
        for made in (calor.versine(t), t.versine(), calor.jit(calor.versine)(t)):
            np.testing.assert_allclose(made.numpy(), 1 - np.cos(x), rtol=1e-6, atol=1e-7)
        slope = calor.grad(lambda t: t.versine().sum())(t)
        np.testing.assert_allclose(slope.numpy(), np.sin(x), rtol=1e-6, atol=1e-6)
        _, moved = calor.jvp(calor.versine, (t,), (calor.ones_like(t),))
        np.testing.assert_allclose(moved.numpy(), np.sin(x), rtol=1e-6, atol=1e-6)
        assert calor.versine(calor.asarray([1, 2])).dtype is calor.float32
# A device takes it whole, or gets what it is made of.
assert "versine" in ROWS
graph = calor.trace(calor.versine, calor.ones(3))
assert [node.op.name for node in graph.nodes] == ["versine"]
assert "sin" in {node.op.name for node in decompose(graph).nodes}
# Conformance rows.
own = [c for c in CASES if c.op == "versine"]
checks = [c for c in suite.of_rows(own) if c.dtype in (calor.float32, calor.float64, calor.float16)]
kinds = {c.kind for c in checks}
assert {"values", "special", "composites", "gradient", "second-order"} <= kinds, kinds
for device in ("numpy", "cpu"):
    kept = [c for c in checks if c.kind in ("values", "special", "composites", "gradient")]
    found = list(running.run(get_device(device), kept))
    assert {r.outcome for r in found} == {"passed"}, [r for r in found if r.outcome != "passed"]
print(len(checks))
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the op added."""
    folder = tmp_path_factory.mktemp("scratch")
    for project in PROJECTS:
        # The bytecode comes along, and holds for files that keep their times and sizes.
        shutil.copytree(ROOT / project / "src", folder / project / "src")
    for name, edits in EDITS.items():
        text = (folder / name).read_text("utf-8")
        for old, new in edits:
            assert not old or text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
            text = text.replace(old, new) if old else text + new
        (folder / name).write_text(text, "utf-8")
    return folder


def changed(folder: Path) -> set[str]:
    """The files of a copy that differ from those of the repository."""
    files = [p.relative_to(folder) for p in folder.rglob("*.py")]
    return {f.as_posix() for f in files if not filecmp.cmp(folder / f, ROOT / f, shallow=False)}


def test_at_most_three_files_are_touched(scratch: Path) -> None:
    assert changed(scratch) == set(EDITS)
    assert len(EDITS) <= 3


def test_everything_follows(scratch: Path) -> None:
    sources = [str(scratch / project / "src") for project in PROJECTS]
    path = os.pathsep.join(
        [*sources, str(ROOT / "docs"), str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]
    )
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", LOOKS, str(scratch)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
