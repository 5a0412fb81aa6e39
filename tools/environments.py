"""Environments of the sessions: one that most of them share, and new ones without calor's sources.

Each wheel that others publish is downloaded once, into one folder; environments are installed from
that folder alone. An environment of all projects, with pip's defaults, takes twice the processor
time of this one, and eight sessions need it:

- One environment has what the tests, the type checker, the linter and the documentation need.
- The projects are built where their build backend is installed; pip's isolated builds would install
  it once for each of them.
- Bytecode is compiled by all processors, and not for the tests that packages bring. Nothing imports
  those, and what is compiled in a test run could warn there, which is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import nox
from packaging.requirements import Requirement

from projects import DRIVERS, PROJECTS, ROOT, group, name_of, settings

HOME = ROOT / ".nox"
SHARED = HOME / "shared"
WHEELHOUSE = HOME / "wheelhouse"
GROUPS = ("docs", "lint", "third-party", "types", "wheels")
# What hatchling needs to install a project in place.
EDITABLE = "editables>=0.5"
QUIET = ("--quiet", "--disable-pip-version-check")


def executable(environment: Path, name: str = "python") -> str:
    """Return a program of an environment."""
    windows = sys.platform == "win32"
    return str(
        environment / ("Scripts" if windows else "bin") / (f"{name}.exe" if windows else name)
    )


def requirements() -> list[str]:
    """Return what others publish of all that the projects, their extras and the groups require."""
    siblings = {name_of(project) for project in PROJECTS}
    texts = {EDITABLE, *group(*GROUPS)}
    for project in PROJECTS:
        table = settings(project)
        texts.update(table["dependencies"])
        for extra, needs in table.get("optional-dependencies", {}).items():
            if extra not in DRIVERS:
                texts.update(needs)
    return sorted(text for text in texts if Requirement(text).name not in siblings)


def digest() -> str:
    """Return what the shared environment depends on, as one number.

    That is the interpreter, the requirements, and every file that a project in place is made of:
    its entry points and commands are copied when it is installed.
    """
    files = {str(project): (ROOT / project / "pyproject.toml").read_text() for project in PROJECTS}
    known = [sys.version, sys.platform, str(ROOT), requirements(), files]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def create(session: nox.Session, folder: Path) -> str:
    """Make an environment with pip anew, and return its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    # nox depends on virtualenv, which has a pip at hand: the venv module installs one each time.
    session.run_install(
        sys.executable, "-m", "virtualenv", "--quiet", "--python", sys.executable, str(folder)
    )
    return executable(folder)


def compile_bytecode(session: nox.Session, python: str) -> None:
    """Compile what is installed in an environment; parts for other versions may not compile."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = session.run_install(python, "-c", ask, silent=True, log=False)
    command = ("-m", "compileall", "-qq", "-j", "0", "-x", r"[/\\]tests?[/\\]")
    session.run_install(python, *command, str(packages).strip(), success_codes=[0, 1], silent=True)


def install(session: nox.Session, python: str, *arguments: str) -> None:
    """Install from the wheelhouse, and from folders among the arguments, into an environment."""
    offline = ("--no-compile", "--no-index", "--find-links", str(WHEELHOUSE))
    session.run_install(python, "-m", "pip", "install", *QUIET, *offline, *arguments)


def shared(session: nox.Session) -> str:
    """Return the interpreter of the environment that most sessions share, made where it is not.

    All projects are installed in place, with all extras but those of drivers. The environment is
    made anew when what it depends on changes; `rm -r .nox` takes newer versions of the rest.
    """
    python = executable(SHARED)
    stamp = SHARED / "made-from"
    found = digest()
    if not stamp.exists() or stamp.read_text() != found:
        create(session, SHARED)
        fill(session, python)
        if Path(python).exists():
            stamp.write_text(found)
    session.env["PATH"] = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    return python


def fill(session: nox.Session, python: str) -> None:
    """Download the wheels, and install them and the projects."""
    download = ("--only-binary", ":all:", "--dest", str(WHEELHOUSE))
    session.run_install(python, "-m", "pip", "download", *QUIET, *download, *requirements())
    install(session, python, *requirements())
    in_place = [argument for project in PROJECTS for argument in ("-e", f"./{project}")]
    install(session, python, "--no-build-isolation", "--no-deps", *in_place)
    session.run_install(python, "-m", "pip", "check", *QUIET, silent=True)
    compile_bytecode(session, python)


def apart(session: nox.Session, folder: Path, *requirements: str) -> str:
    """Return the interpreter of a new environment that has these and what they need, from files."""
    python = create(session, folder)
    install(session, python, *requirements)
    compile_bytecode(session, python)
    return python


def installed_beside(session: nox.Session, folder: Path, *arguments: str) -> Path:
    """Return a new folder with a project that a session alone sees, for its search path."""
    python = shared(session)
    shutil.rmtree(folder, ignore_errors=True)
    install(
        session, python, "--no-build-isolation", "--no-deps", "--target", str(folder), *arguments
    )
    return folder
