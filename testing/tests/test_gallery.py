"""The programs of the gallery run, with less work, and each has its picture on the page."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
PROGRAMS = sorted(GALLERY.glob("*.py"))
LESS: dict[str, dict[str, int]] = {
    "denoising": {"updates": 5, "points": 64},
    "mandelbrot": {"size": 64, "most": 40},
    "optimizers": {"steps": 30},
    "reaction_diffusion": {"size": 32, "steps": 50},
    "spirals": {"steps": 150},
}
# What each program returns lies between these.
BOUNDS = {
    "denoising": (0.0, 3.0),
    "graph": (10, 200),
    "mandelbrot": (0.2, 0.3),
    "reaction_diffusion": (0.01, 0.3),
    "spirals": (0.6, 1.0),
}


def program(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"gallery_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_draws_its_picture(path: Path, tmp_path: Path) -> None:
    (kept,) = (GALLERY.parent / "images" / "gallery").glob(f"{path.stem}.*")
    picture = tmp_path / kept.name
    found = program(path).main(str(picture), **LESS.get(path.stem, {}))
    if path.stem == "optimizers":
        assert found["Adam"] < 300
    else:
        low, high = BOUNDS[path.stem]
        assert low < found <= high
    head = picture.read_bytes()[:8]
    assert head == b"\x89PNG\r\n\x1a\n" or head.startswith(b"<svg")
    page = (GALLERY.parent / "gallery.md").read_text("utf-8")
    assert f"images/gallery/{kept.name}" in page
    assert f"gallery/{path.name}" in page
