"""Random programs mean in a kernel what they mean in Python, as built and optimized."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from calor_interpreter.verify import verify
from calor_kernel.ir.passes import optimize
from calor_kernel.language import kernel

from . import test_programs
from .program_table import PROGRAMS
from .random_programs import programs

COUNT = 12


def load(path: Path, seed: int) -> ModuleType:
    """The module of a seed's programs."""
    path.write_text(programs(seed, COUNT))
    found = importlib.util.spec_from_file_location(f"random_{seed}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(tmp_path / f"random_{seed}.py", seed)
    for number in range(COUNT):
        name = f"p{number}"
        monkeypatch.setitem(PROGRAMS, name, kernel(getattr(module, name)))
        built = verify(test_programs.build(name, nonnegative=True))
        made = verify(optimize(built))
        for n in (0, 1, 3):
            expected = test_programs.python(name, n)
            assert test_programs.lanes(built, n) == expected, f"{name}, built, n = {n}"
            assert test_programs.lanes(made, n) == expected, f"{name}, optimized, n = {n}"
