"""A device is a small plugin: what is general is calor-kernel's."""

from pathlib import Path

import pytest

from code_lines import code_lines

PLUGINS = Path(__file__).parents[2] / "plugins"
# The most lines of code of a device's plugin, beside its bindings and what prints its language.
# What some say to the doctor is beside too. Files are named, and folders.
BARS = {
    "cuda": (450, {"bindings", "pycuda_driver"}),
    "hip": (250, {"bindings", "dialect", "tables"}),
    "metal": (250, {"_bindings", "diagnosis", "dialect", "atomics", "matrices", "tables"}),
    "opencl": (250, {"_bindings", "diagnosis"}),
    "wgpu": (250, {"_bindings", "diagnosis", "wgsl"}),
}


@pytest.mark.parametrize("name", BARS)
def test_a_plugin_of_a_device_is_small(name: str) -> None:
    bar, beside = BARS[name]
    files = {p: {p.stem, p.parent.name} for p in (PLUGINS / name / "src").rglob("*.py")}
    assert beside <= set().union(*files.values())
    assert sum(code_lines(p) for p, names in files.items() if not names & beside) <= bar


def test_the_printer_of_wgsl_is_small() -> None:
    files = [*(PLUGINS / "wgpu" / "src" / "calor_wgpu" / "wgsl").glob("*.py")]
    assert len(files) > 1
    assert sum(code_lines(p) for p in files if p.stem != "dialect") <= 500


def test_what_is_counted(tmp_path: Path) -> None:
    text = '"""What it is."""\n\nx = (\n    1\n)  # why\n\n\n'
    text += 'def f():\n    """Return."""\n    return """a\nb"""\n'
    file = tmp_path / "given.py"
    file.write_text(text, "utf-8")
    assert code_lines(file) == 6
