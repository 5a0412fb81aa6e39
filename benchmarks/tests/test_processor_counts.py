"""Instructions of a processor's launch are those that ran; caches and ports follow a model."""

import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
import counters
from calor_kernel.runtime.backend import engine_of
from programs import instructions, port_model, processor_counts
from programs.cache_model import LINE, Caches
from programs.instructions import Touched
from programs.port_model import Block, Ports
from programs.processor_counts import Counts
from programs.processor_rates import Rates
from programs.stepping import SteppingError, stepped

STEPS = pytest.mark.skipif(
    not sys.platform.startswith("linux")
    or platform.machine() != "x86_64"
    or shutil.which("objdump") is None,
    reason="stepping needs Linux on x86-64 and objdump",
)
ROWS, TERMS, COLUMNS = 8, 64, 96


def traffic(lines: list[int], asks: bool = False, caches: Caches | None = None) -> tuple[int, int]:
    given = np.array(lines, np.uint64)
    flags = np.full(len(lines), asks)
    made = (caches or Caches((1024, 4096))).run(Touched(given, flags, flags & False, 0))
    return made.first // LINE, made.second // LINE


def test_caches_keep_what_was_used_last() -> None:
    # Eight ways of two sets: lines of one set push each other out, those of the other do not.
    assert traffic([0, 2, 0, 2, 1]) == (3, 3)
    evens = list(range(0, 18, 2))
    assert traffic([*evens, 16, 0]) == (10, 9)
    # What was used again stays, and what was not goes.
    assert traffic([*evens[:8], 0, 16, 0, 2]) == (10, 9)
    # A line that is only asked for goes to the second cache.
    caches = Caches((1024, 4096))
    assert traffic([5, 6], True, caches) == (0, 2)
    assert traffic([5, 6], False, caches) == (2, 0)


TEXT = """
0000000000000000 <other>:
   0:\tret
0000000000000010 <kernel>:
  10:\tvmovups 0x40(%rdi,%rax,4),%zmm0
  17:\tvfmadd231ps (%rsi){1to16},%zmm0,%zmm1
  1d:\tvmovaps %zmm1,(%rdx,%rax,8)
  24:\tprefetcht1 -0x80(%r9)
  28:\ttileloadd (%r8,%rcx,1),%tmm0
  2e:\tadd    %rax,0x8(%rsp)
  33:\tlea    0x8(%rax),%rax
  37:\tjb     10 <kernel>
  39:\tcmp    %rax,(%rdi)
  3b:\tvgatherdps (%rax,%zmm2,4),%zmm1{%k1}
  3c:\tret
"""


def test_instructions_tell_what_they_touch() -> None:
    found = instructions.read(TEXT, "kernel")
    assert [one.at for one in found][:3] == [0, 7, 13]
    told = [
        one.memory and (one.memory.nbytes, one.memory.reads, one.memory.writes, one.memory.asks)
        for one in found
    ]
    assert told == [
        (64, True, False, False),
        (4, True, False, False),
        (64, False, True, False),
        (1, False, False, True),
        (64, True, False, False),
        (8, True, True, False),
        None,
        None,
        (8, True, False, False),
        None,
        None,
    ]
    assert found[4].memory is not None
    assert found[4].memory.rows == 16
    with pytest.raises(SteppingError, match="no function absent"):
        instructions.read(TEXT, "absent")
    # Instructions that ran equally often are a block, which a jump ends.
    loop = dict.fromkeys((one.at for one in found[:8]), 5)
    first, second = port_model.blocks(found, {**loop, found[8].at: 1, found[9].at: 1})
    assert (first.count, len(first.lines), first.lines[-1]) == (5, 8, "jb target")
    assert (second.count, second.lines) == (
        1,
        ("cmp    %rax,(%rdi)", "vgatherdps (%rax,%zmm2,4),%zmm1{%k1}"),
    )


class Product:
    """A step of one product."""

    device = "cpu"

    def __init__(self) -> None:
        with calor.device("cpu"):
            self.given = calor.ones((ROWS, TERMS)), calor.ones((TERMS, COLUMNS))
            self.product = calor.jit(lambda a, b: a @ b)

    def run(self, times: int = 1) -> None:
        self.made = self.product(*self.given)
        calor.eval(self.made)


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Product:
    step = Product()
    step.run()
    return step


@STEPS
def test_a_product_takes_its_multiply_adds(step: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_cpu.queue import CpuQueue

    monkeypatch.setattr(CpuQueue, "load", CpuQueue.load)
    images = processor_counts.seen()
    # Kernels are loaded once, so the product is one that no other test has.
    step.product = calor.jit(lambda a, b: (a @ b) * 3.5)
    step.run()
    info = engine_of("cpu", "").device.info
    rates = Rates(4e11, 1e11, 1e10, 3e9)
    monkeypatch.setattr("programs.processor_rates.measured", lambda *given: rates)
    import calor_kernel

    with calor.device("cpu"), calor_kernel.profile("cpu") as profile:
        step.run()
    event = profile.events[-1]
    own = {"op": event.op, "kernel": event.blueprint, "results": list(event.results)}
    wanted = {**own, "bytes": int(event.nbytes), "flops": int(event.flops), "seconds": 1e-5}
    absent = {**wanted, "bytes": 1}
    ((launch, counts),) = processor_counts.of_launches(
        step, [absent, wanted], images, 1 << 20, 1 << 20
    )
    assert launch is wanted
    lanes = info.vector_bytes // 4
    products = ROWS * TERMS * COLUMNS // lanes
    assert products <= counts.kinds["multiply-adds"] <= 2 * products
    assert counts.instructions > products
    # The caches of a core hold all of it, and what the cube reads comes from behind them once.
    least = 4 * TERMS * COLUMNS / counts.cubes
    assert least / 2 <= counts.second / counts.cubes <= 8 * least
    assert sum(b.count * len(b.lines) for b in counts.blocks) == pytest.approx(
        counts.instructions / counts.cubes, rel=0.02
    )
    assert "behind the L2 cache" in processor_counts.reason(counts, wanted)
    assert Counts.of(json.loads(json.dumps(counts.plain()))) == counts
    # The step itself is unchanged, and goes on.
    step.run()
    assert step.made[0, 0].item() == 3.5 * TERMS


@STEPS
def test_a_function_with_too_many_instructions_is_refused(step: Product) -> None:
    from calor_cpu.loader import LoadedImage
    from calor_cpu.toolchain import compile_once

    empty = "define void @empty(ptr %a, i64 %b, i64 %c) {\n  ret void\n}\n"
    loaded = LoadedImage(compile_once(empty), "empty")
    made = stepped(loaded.address, 16, 0, 0, 1, 100)
    assert (len(made.registers), made.whole) == (1, True)
    assert not stepped(loaded.address, 16, 0, 0, 1, 2).whole


@pytest.mark.skipif(port_model.program() is None, reason="there is no llvm-mca")
def test_ports_are_added_to_a_stored_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tuple(f"vfmadd231ps %ymm15,%ymm14,%ymm{i}" for i in range(12))
    rates = Rates(4e11, 1e11, 1e10, 3e9)
    kinds = {"multiply-adds": 24000, "reads": 0, "writes": 0}
    blocks = [Block(1000, loop)]
    made = Counts(24000, kinds, 0, 6400, 640, 2, rates, "skylake-avx512", blocks)
    launch: dict[str, Any] = {
        "op": "dot", "kernel": "tiles", "results": ["f[3]"], "share": 0.05, "of_ceiling": 0.4,
        "seconds": 1e-5, "why": "", "counters": made.plain(),
    }  # fmt: skip
    path = tmp_path / "counters.json"
    path.write_text(json.dumps({"rows": [{"case": "a step", "launches": [launch]}]}), "utf-8")
    assert counters.main(["--ports", str(path)]) == 0
    told = json.loads(path.read_text("utf-8"))["rows"][0]["launches"][0]
    # Two ports take two multiply-adds a cycle.
    assert told["counters"]["ports"]["cycles"] == pytest.approx(6000, rel=0.1)
    assert "24000 instructions: 40% of the time" in told["why"]
    assert "a step" in capsys.readouterr().out


def test_the_reason_is_the_longest_part() -> None:
    rates = Rates(4e11, 1e11, 1e10, 1e9)
    kinds = {"multiply-adds": 10, "reads": 5, "writes": 5}
    ports = Ports(4000.0, {"P0": 0.9})
    made = Counts(1000, kinds, 0, 100_000, 80_000, 1, rates, "x", [], ports)
    assert made.seconds() == pytest.approx({"L2": 1e-6, "behind L2": 8e-6, "ports": 4e-6})
    told = processor_counts.reason(made, {"seconds": 20e-6})
    assert told.startswith("80 kB from behind the L2 cache: 40% of the time; 1000 instructions: 20")
    assert told.endswith("35% of the time is not in the model")
    assert processor_counts.reason(made, {"seconds": 12e-6}).endswith("they overlap in part")


def test_a_run_needs_models_or_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        counters.main([])
    assert "name models, or a stored file with --ports" in capsys.readouterr().err
