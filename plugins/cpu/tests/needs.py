"""What a test needs of the processor, and the targets that run on it."""

from __future__ import annotations

import pytest

from calor_cpu.target import native

TARGETS = ("native", "x86-64-v3", "x86-64") if native().is_x86 else ("native",)
x86 = pytest.mark.skipif(not native().is_x86, reason="the processor is not of x86-64")


def feature(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs a feature of LLVM's name."""
    return pytest.mark.skipif(
        not native().has(name), reason=f"the processor has not the feature {name}"
    )
