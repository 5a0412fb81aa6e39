"""The command line: ``python -m calor_kernel bundle`` and ``python -m calor_kernel cache``.

Requirements: a bundle has the form of the cache, so it is made by copying and read by the same
code. Entries for another processor, compiler or source version have other names and do no harm.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from calor.cache import cache_directory
from calor_kernel.device.images import KERNELS
from calor_kernel.device.storage import Lines, Storage
from calor_kernel.runtime.autotune import TUNING


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m calor_kernel", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bundle = commands.add_parser(
        "bundle",
        help="put compiled kernels and tuning results into a directory that can be shipped",
        description="With a program, what it compiles and tunes is bundled; without one, all that "
        "the cache holds. A process reads the bundles that CALOR_BUNDLES names.",
    )
    bundle.add_argument("directory", type=Path)
    bundle.add_argument("program", nargs=argparse.REMAINDER, help="-- command and its arguments")
    commands.add_parser("cache", help="say where the cache is and what it holds")
    given = parser.parse_args(arguments)
    if given.command == "cache":
        print(cache_figures(cache_directory()))
        return 0
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    if program:
        environment = {**os.environ, "CALOR_CACHE_DIR": str(given.directory.resolve())}
        environment.pop("CALOR_BUNDLES", None)
        status = subprocess.run(program, env=environment, check=False).returncode
        if status:
            return status
    else:
        make_bundle(cache_directory(), given.directory)
    print(cache_figures(given.directory))
    return 0


def make_bundle(source: Path, target: Path) -> None:
    """Add the entries and tuning results of a cache to a bundle."""
    images, made = Storage(source / KERNELS), Storage(target / KERNELS)
    for key in images.keys():  # noqa: SIM118 - a storage is no mapping
        data = images.read(key)
        if data is not None:
            made.write(key, data)
    for file in sorted((source / TUNING).glob("*.lines")):
        lines = Lines(target / TUNING / file.name)
        for name, value in Lines(file).items():
            if lines.get(name) != value:
                lines.put(name, value)


def cache_figures(directory: Path) -> str:
    """Return the figures of a cache or bundle in one line."""
    storage = Storage(directory / KERNELS)
    sizes = [storage.size(key) for key in storage.keys()]  # noqa: SIM118 - as above
    tuned = sum(len(Lines(file)) for file in (directory / TUNING).glob("*.lines"))
    return f"{directory}: {len(sizes)} kernels, {sum(sizes)} bytes; {tuned} tuning results"


if __name__ == "__main__":
    sys.exit(main())
