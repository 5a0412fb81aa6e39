"""A device is a small plugin: what is general is calor-kernel's."""

import re
from pathlib import Path

import pytest

from code_lines import code_lines

PLUGINS = Path(__file__).parents[2] / "plugins"
# The most lines of code of a device's plugin, beside its bindings, kernels, passes and probes, and
# what prints its language. What some say to the doctor is beside too, and loops as programs of a
# device. Files and folders are named.
BARS = {
    "cuda": (
        545,
        {"bindings", "pycuda_driver", "pycuda_capsules", "cuda_cpp", "kernels", "loops"},
    ),
    "hip": (250, {"bindings", "dialect", "tables"}),
    "metal": (250, {"_bindings", "diagnosis", "dialect", "atomics", "matrices", "tables"}),
    "opencl": (260, {"_bindings", "diagnosis", "opencl_c", "plane_probe"}),
    "wgpu": (280, {"_bindings", "diagnosis", "wgsl", "passes", "probes", "structs"}),
}


@pytest.mark.parametrize("name", BARS)
def test_a_plugin_of_a_device_is_small(name: str) -> None:
    bar, beside = BARS[name]
    source = PLUGINS / name / "src"
    files = {p: {p.stem, *p.relative_to(source).parts[:-1]} for p in source.rglob("*.py")}
    assert beside <= set().union(*files.values())
    assert sum(code_lines(p) for p, names in files.items() if not names & beside) <= bar


def test_the_printer_of_wgsl_is_small() -> None:
    files = [*(PLUGINS / "wgpu" / "src" / "calor_wgpu" / "wgsl").glob("*.py")]
    assert len(files) > 1
    assert sum(code_lines(p) for p in files if p.stem not in ("dialect", "recipes")) <= 575


# What a language of the C family says of itself: its dialect. Beside are tables of its words, its
# atomics, and what only some processors have: matrices, asynchronous copies, vector arithmetic.
# Plain C is all in one file; The dialects of CUDA and HIP add to that of C++ for GPUs.
DIALECTS = {
    "C": "packages/kernel/src/calor_kernel/printers/plain_c.py",
    "C++ for GPUs": "packages/cupy/src/calor_cupy/gpu_cpp/dialect.py",
    "CUDA C++": "plugins/cuda/src/calor_cuda/cuda_cpp/dialect.py",
    "HIP C++": "plugins/hip/src/calor_hip/dialect.py",
    "Metal": "plugins/metal/src/calor_metal/dialect.py",
    "OpenCL C": "plugins/opencl/src/calor_opencl/opencl_c/dialect.py",
}


@pytest.mark.parametrize("language", DIALECTS)
def test_a_dialect_of_c_is_small(language: str) -> None:
    assert code_lines(PLUGINS.parent / DIALECTS[language]) <= 150


def test_every_dialect_of_c_is_counted() -> None:
    files = [
        p for top in ("packages", "plugins") for p in (PLUGINS.parent / top).glob("*/src/**/*.py")
    ]
    found = re.compile(r"^class \w+\((Dialect|GpuCpp)\)", re.M)
    languages = {
        p.relative_to(PLUGINS.parent).as_posix()
        for p in files
        if found.search(p.read_text("utf-8"))
    }
    # WGSL is no language of the family, though it prints by the same printer; its bar is above.
    assert languages - {"plugins/wgpu/src/calor_wgpu/wgsl/dialect.py"} == {*DIALECTS.values()}


def test_what_is_counted(tmp_path: Path) -> None:
    text = '"""What it is."""\n\nx = (\n    1\n)  # why\n\n\n'
    text += 'def f():\n    """Return."""\n    return """a\nb"""\n'
    file = tmp_path / "given.py"
    file.write_text(text, "utf-8")
    assert code_lines(file) == 6
