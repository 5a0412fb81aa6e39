"""Kernels are named by what they are built from, found on disk, and compiled beside each other."""

import linecache
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from time import monotonic, sleep

import pytest

from calor.dtypes import float32, int64
from calor.errors import CompileError, DeviceError, OutOfMemoryError
from calor_interpreter.device import MANY_UNITS, LanesDevice, LanesToolchain
from calor_kernel.contract.work import Build
from calor_kernel.device import images, workers
from calor_kernel.device.images import Images, build_text, describe, outline, outline_data
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.printing import PrintingToolchain
from calor_kernel.device.workers import Preparation, image_of
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import cube_position, kernel, shared
from calor_kernel.library.copying import copy_dense
from calor_kernel.library.copying.rows import copy_rows
from calor_kernel.printers import PlainC

SIZE = Scalar(int64, nonnegative=True)


def dense(width, fill=False):
    keywords = (("width", width), ("fill", fill))
    return Build(copy_dense, (Buffer(float32), Buffer(float32), SIZE, SIZE), keywords)


@dataclass(frozen=True)
class Blueprint:
    tile: tuple[int, int]
    scale: float


def twice(x):
    return x * 2


def times(factor):
    return lambda x: x * factor


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ((1, 2), ((1, 2),)),
        ("1", 1),
        (float32, int64),
        (twice, len),
        (times(2), times(3)),
        (lambda x: x + 1, lambda x: x + 2),
        (Blueprint((1, 2), 1.0), Blueprint((1, 2), 1.5)),
        (copy_dense, copy_rows),
        (Buffer(float32), Buffer(float32, align=16)),
        (frozenset("ab"), frozenset("ac")),
    ],
)
def test_what_differs_has_another_text(a, b):
    assert describe(a) != describe(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [(times(2), times(2)), (Blueprint((1, 2), 1.0), Blueprint((1, 2), 1.0)), ((1, "a"), (1, "a"))],
)
def test_what_is_alike_has_one_text(a, b):
    assert describe(a) == describe(b)


def test_what_has_no_lasting_name_is_refused():
    with pytest.raises(KernelTypeError, match="build-time argument"):
        describe(object())


CELL = """
@kernel
def bump(x, n):
    x[cube_position()] = moved(x[cube_position()])
"""


def test_a_kernel_without_a_file_is_not_kept(own_cache, monkeypatch):
    """What it calls may have been another function when an image of its name was stored."""
    cell = {"kernel": kernel, "cube_position": cube_position, "moved": lambda value: value + 1.0}
    monkeypatch.setitem(linecache.cache, "cell", (len(CELL), None, CELL.splitlines(True), "cell"))
    exec(compile(CELL, "cell", "exec"), cell)
    build = Build(cell["bump"], (Buffer(float32), SIZE))
    with pytest.raises(KernelTypeError, match="no file"):
        build_text(build)
    kernels = Kernels(LanesDevice())
    kernels.load([build])
    assert kernels.compiled == 1
    assert not own_cache.exists()


def test_the_text_is_the_same_in_another_process():
    code = (
        "from calor_kernel.device.images import build_text;"
        "from calor_kernel.library.copying import copy_dense;"
        "from calor_kernel.contract.work import Build;"
        "from calor_kernel.ir.types import Buffer, Scalar;"
        "from calor.dtypes import float32, int64;"
        "print(build_text(Build(copy_dense, (Buffer(float32), Buffer(float32),"
        " *[Scalar(int64, nonnegative=True)] * 2), (('width', 8), ('fill', False)))))"
    )  # fmt: skip
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == build_text(dense(8))


def test_a_second_process_compiles_nothing(own_cache):
    device = LanesDevice()
    first, second = Kernels(device), Kernels(LanesDevice())
    first.load([dense(8), dense(16), dense(8)])
    second.load([dense(16), dense(8)])
    assert (first.compiled, first.found, second.compiled, second.found) == (2, 0, 0, 2)
    third = Kernels(LanesDevice(replace(device.info, features=frozenset())))
    third.load([dense(8)])
    assert (third.compiled, third.found) == (1, 0)


@pytest.mark.parametrize("error", [CompileError, DeviceError])
def test_a_stored_image_that_the_driver_refuses_is_compiled_anew(own_cache, monkeypatch, error):
    device = LanesDevice()
    Kernels(device).load([dense(8), dense(16)])
    load, seen = device.queue.load, []

    def refusing(image, made):
        seen.append(made)
        if len(seen) == 1:
            raise error("an image of another driver")
        return load(image, made)

    monkeypatch.setattr(device.queue, "load", refusing)
    kernels = Kernels(device)
    kernels.load([dense(8), dense(16)])
    assert (kernels.compiled, kernels.found, len(seen)) == (1, 1, 3)

    def short_of_memory(image, made):
        raise OutOfMemoryError("no memory for a module")

    monkeypatch.setattr(device.queue, "load", short_of_memory)
    again = Kernels(device)
    with pytest.raises(OutOfMemoryError, match="for a module"):
        again.load([dense(8)])
    assert again.compiled == 0


def test_what_was_loaded_before_a_refused_kernel_is_kept(own_cache, monkeypatch):
    device = LanesDevice()
    kernels, load = Kernels(device), device.queue.load

    def refusing(image, made):
        if seen:
            raise CompileError("too large")
        seen.append(made)
        return load(image, made)

    seen = []
    monkeypatch.setattr(device.queue, "load", refusing)
    with pytest.raises(CompileError, match="too large"):
        kernels.load([dense(8), dense(16)])
    assert (kernels.compiled, len(seen)) == (1, 1)
    monkeypatch.setattr(device.queue, "load", load)
    kernels.load([dense(8), dense(16)])
    # The image of the kernel that was loaded is stored, and its function is there.
    assert (kernels.compiled, kernels.found) == (2, 0)
    other = Kernels(LanesDevice())
    other.load([dense(8), dense(16)])
    assert (other.compiled, other.found) == (0, 2)


class OtherC(PlainC):
    """A dialect in another package than its toolchain."""


class PrintingOther(PrintingToolchain):
    """A toolchain whose dialect is another package's."""

    target = "text"
    dialect = OtherC()

    def compile(self, source, name):
        return source.encode()


PrintingOther.__module__ = "json"


def test_images_depend_on_the_packages_of_toolchain_and_dialect(monkeypatch):
    """An image that an older dialect printed is not found."""
    sources = {"json": "toolchain 1", OtherC.__module__: "dialect 1"}
    monkeypatch.setattr(images, "module_digest", lambda name: sources.get(name, ""))
    device = LanesDevice()
    device.toolchain = PrintingOther()
    keys = [images.Images(device).key(dense(8))]
    for name in sources:
        sources[name] += " changed"
        keys.append(images.Images(device).key(dense(8)))
    assert len(set(keys)) == 3


def test_numbers_that_compare_equal_are_different_kernels():
    kernels = Kernels(LanesDevice())
    one, other = kernels.load([dense(8, False), dense(8, 0)])
    assert one is not other


def test_keeping_nothing(monkeypatch, own_cache):
    monkeypatch.setenv("CALOR_CACHE", "0")
    Kernels(LanesDevice()).load([dense(8)])
    assert not own_cache.exists()


@kernel
def with_shared_memory(x, n):
    held = shared(32, float32)
    held[0] = x[cube_position()]
    x[cube_position()] = held[0]


def test_an_outline_is_the_kernel_without_its_body():
    built = with_shared_memory.build(
        [Buffer(float32, align=16), SIZE], cube=(8, 2, 1), plane=8, attributes={"registers": 40}
    )
    found = outline(outline_data(built))
    assert [(p.name, p.declared) for p in found.parameters] == [
        (p.name, p.declared) for p in built.parameters
    ]
    assert [p.memory is None for p in found.parameters] == [False, True]
    for name in ("name", "cube", "plane", "units", "shared_bytes", "attributes"):
        assert getattr(found, name) == getattr(built, name)
    assert outline_data(replace(built, attributes={"thing": object()})) is None


def test_images_of_another_toolchain_have_other_keys():
    one, other = LanesDevice(), LanesDevice()
    other.toolchain.target = "lanes-2"
    assert Images(one).key(dense(8)) != Images(other).key(dense(8))


@pytest.fixture
def pool(monkeypatch):
    made = workers.Workers()
    monkeypatch.setenv("CALOR_COMPILE_WORKERS", "2")
    monkeypatch.setattr(workers, "_POOL", made)
    yield made
    made.close()


def test_many_cold_kernels_are_compiled_in_workers_too(monkeypatch, pool):
    mine = []

    def at_last(job):
        """Leave the others to the workers, however long they take to start."""
        end = monotonic() + 60
        while not pool.tasks.empty() and monotonic() < end:
            sleep(0.01)
        mine.append(job)
        return image_of(job)

    monkeypatch.setattr(workers, "image_of", at_last)
    hidden = Build(kernel(_hidden()), (Buffer(float32), SIZE))
    for first in (0, 100):
        kernels = Kernels(LanesDevice(MANY_UNITS))
        functions = kernels.load([hidden, *(dense(n) for n in range(first + 1, first + 13))])
        assert kernels.compiled + kernels.found == 13
        assert [f.kernel.name for f in functions[1:]] == ["copy_dense"] * 12
        # One that dies is replaced, or done without where it did not even start.
        assert pool._all
        pool._all[0].process.kill()
        pool._all[0].process.wait()
    assert 1 <= len(mine) < 13


def test_few_cold_kernels_start_no_worker(pool):
    Kernels(LanesDevice()).load([dense(n) for n in range(1, workers.FEW)])
    assert pool._all == []


def test_workers_are_started_for_kernels_to_come(pool):
    kernels = Kernels(LanesDevice())
    kernels.expect()
    assert pool._all == []
    kernels.load([dense(1)])
    kernels.expect()
    assert len(pool._all) == 2
    assert {worker.preparation.toolchain for worker in pool._all} == {kernels.device.toolchain}
    kernels.load([dense(n) for n in range(2, 9)])
    assert kernels.compiled + kernels.found == 8


class Prepared(LanesToolchain):
    """Counts how often it is prepared."""

    times = 0

    def prepare(self):
        Prepared.times += 1


def test_a_worker_loads_what_jobs_need():
    made = Preparation.of(Prepared(MANY_UNITS))
    assert copy_dense.__module__ in made.modules
    message = pickle.dumps(replace(made, modules=(*made.modules, "calor_kernel.library.named")))
    assert workers._answer(message) is None
    assert Prepared.times == 0
    assert workers._answer(pickle.dumps(made)) is None
    assert Prepared.times == 1


def test_workers_that_do_not_start_are_done_without(monkeypatch, pool):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "executable", "false")
    kernels = Kernels(LanesDevice())
    kernels.load([dense(n) for n in range(1, 20)])
    assert kernels.compiled == 19


def test_an_error_of_one_kernel_is_raised_here(pool):
    @kernel
    def wrong(x, n):
        x[n] = n.nothing

    with pytest.raises(AttributeError, match="nothing"):
        Kernels(LanesDevice()).load(
            [*(dense(n) for n in range(1, 10)), Build(wrong, (Buffer(float32), SIZE))]
        )
    while not pool.tasks.empty():
        assert not pool.tasks.get()[-1].take()


def test_kernels_of_many_parameters_come_first(monkeypatch):
    mine = []
    monkeypatch.setenv("CALOR_COMPILE_WORKERS", "0")
    monkeypatch.setattr(workers, "image_of", lambda job: mine.append(job) or image_of(job))
    joined = replace(dense(3), signature=(*dense(3).signature, SIZE, SIZE, SIZE), folded=True)
    builds = [dense(1), joined, dense(2)]
    functions = Kernels(LanesDevice()).load(builds)
    assert [job.build for job in mine] == [joined, dense(1), dense(2)]
    assert [len(f.kernel.parameters) for f in functions] == [4, 7, 4]


@pytest.mark.parametrize("needed", [workers.FEW - 1, workers.FEW + 4])
def test_workers_begin_kernels_that_are_likely_to_come(monkeypatch, pool, needed):
    kernels, mine = Kernels(LanesDevice(MANY_UNITS)), []
    monkeypatch.setattr(workers, "image_of", lambda job: mine.append(job) or image_of(job))
    likely = [dense(n) for n in range(201, 205)]
    kernels.begin(likely)
    assert pool.tasks.empty()  # No kernel was cold so far.
    kernels.load([dense(200)])
    kernels.expect()
    mine.clear()
    kernels.begin([*likely, *likely])
    begun = [*kernels._early.values()]
    assert len(begun) == len(likely)
    for task in begun[:2]:
        assert task.done.wait(60)
    functions = kernels.load([*likely[:2], *(dense(n) for n in range(300, 298 + needed))])
    assert [f.kernel.name for f in functions] == ["copy_dense"] * needed
    assert kernels.compiled == 1 + needed
    assert not {job.build.keywords for job in mine} & {build.keywords for build in likely[:2]}
    # After a large graph the others are done by nobody.
    dropped = needed >= workers.FEW
    assert len(kernels._early) == (0 if dropped else 2)
    assert not dropped or not any(task.take() for task in begun)


def _hidden():
    def put(x, n):
        x[n - 1] = 1.0

    return put


def test_a_worker_says_what_it_cannot_do():
    assert workers._answer(b"no pickle") is None


def test_a_kernel_with_more_shared_memory_than_a_cube_has_is_not_loaded():
    device, build = LanesDevice(MANY_UNITS), Build(with_shared_memory, (Buffer(float32), SIZE))
    Kernels(device).load([build])
    device.info = replace(MANY_UNITS, shared_bytes=64)
    with pytest.raises(CompileError, match="with_shared_memory has 128 bytes.*smaller tile"):
        Kernels(device).load([build])
