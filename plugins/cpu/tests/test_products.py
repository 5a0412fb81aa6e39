"""The text of products: what the loops of register tiles contain."""

import re

from calor.dtypes import float32
from calor.specs import spec
from calor_cpu.host import describe
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.planning.lowering import load_families

from .test_tiles import WIDE


def test_steps_need_no_address_arithmetic():
    load_families()
    views = View.dense(spec((128, 768), float32)), View.dense(spec((3072, 768), float32))
    given = {"contract": ((1,), (1,)), "batch": ((), ()), "dtype": float32}
    asked = Request("dot_general", given, views, (spec((128, 3072), float32),), describe(WIDE))
    (tiles,) = (w for w in LOWERINGS["dot_general"](asked) if w.variant == "tiles")
    kernel = tiles.launches[-1].build.kernel()
    toolchain = LlvmToolchain(WIDE)
    lines = toolchain.assembly(toolchain.source(kernel), kernel.name).splitlines()
    steps = [n for n, line in enumerate(lines) if "\tvfmadd" in line]
    # The four unrolled steps of 8 rows by 3 vectors, from the first multiply-add to the last.
    loop = lines[steps[0] : steps[4 * 24 - 1]]
    assert not any(re.match(r"\t(lea|add|imul|shl)", line) for line in loop)
    assert any("\tprefetcht1" in line for line in lines)
