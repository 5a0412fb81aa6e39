"""einops learns of calor, whichever is imported first. A package that stands for it is enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BACKENDS = """
class AbstractBackend:
    pass
"""
ASKED = """
from einops import _backends

made = _backends.AbstractBackend.__subclasses__()[0]()
assert made.framework_name == "calor"
x = made.from_numpy(np.arange(6.0, dtype=np.float32).reshape(2, 3))
assert made.is_appropriate_type(x) and made.is_float_type(x)
assert not made.is_float_type(made.arange(0, 3))
assert made.reduce(x, "sum", [0, 1]).tolist() == 15.0
assert made.add_axis(x, 1).shape == (2, 1, 3)
assert made.tile(x, (1, 2)).shape == (2, 6)
assert made.concat([x, x], axis=0).shape == (4, 3)
assert made.stack_on_zeroth_dimension([x, x]).shape == (2, 2, 3)
assert made.einsum("ij,kj->ik", x, x).shape == (2, 2)
assert made.to_numpy(x).shape == (2, 3)
"""


@pytest.mark.parametrize("first", ["calor", "einops._backends"])
def test_einops_has_a_backend(tmp_path: Path, first: str) -> None:
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops/__init__.py").touch()
    (tmp_path / "einops/_backends.py").write_text(BACKENDS)
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    program = f"{path}\nimport numpy as np\nimport {first}\nimport calor\n{ASKED}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
