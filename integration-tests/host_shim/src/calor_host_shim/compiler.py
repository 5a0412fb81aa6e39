"""From the text of a kernel to a function of the host, by the system's C++ compiler.

Requirements: any C++17 compiler of a Linux will do, and g++ of Debian does; headers are few and
small, so that a kernel takes about a tenth of a second; what was compiled is kept on disk by the
hash of its text, as GPU drivers keep it, so that a test run compiles only what changed; a cube's
shared memory is one section of the image, so that the runtime finds it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

from calor.cache import cache_directory
from calor_kernel.device.storage import Storage

TEXTS: Final = Path(__file__).parent / "text"
# Neither sums of products nor signed overflow are the compiler's to decide.
_OPTIONS: Final = (
    *("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-nostdlib", "-fno-exceptions", "-fno-rtti"),
    *("-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fsigned-char"),
    # One thread runs all units.
    "-fno-threadsafe-statics",
)
_LIMIT: Final = 256 << 20  # bytes of what is kept
SHARED: Final = "calor_shared"
RUNTIME: tuple[str, ...] = ("-fno-stack-protector",)


class Refused(Exception):
    """What the compiler says of a text that it does not take."""


@cache
def compiler() -> str | None:
    """Return the C++ compiler: of CXX, or the first of a few names; None where there is none.

    None too where images are not of the form ELF, which names the bounds of a section.
    """
    if sys.platform != "linux":
        return None
    names = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def version() -> str:
    """Return what tells images of this compiler and these headers from others."""
    found = compiler()
    if found is None:
        return "no compiler"
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    digest = hashlib.sha256(said.stdout.encode())
    for path in sorted(p for p in TEXTS.rglob("*") if p.is_file()):
        digest.update(path.read_bytes())
    return f"{Path(found).name} {digest.hexdigest()[:16]}"


@cache
def _storage() -> Storage:
    kept = os.environ.get("CALOR_CACHE", "1").strip().lower() not in ("0", "off", "false", "no")
    return Storage(cache_directory() / "host_shim" if kept else None, limit=_LIMIT)


def library(text: str, folder: str, name: str, *options: str) -> bytes:
    """Return the shared object of a text, which finds the headers of a folder; Refused."""
    described = "\n".join((version(), " ".join((*_OPTIONS, *options)), text))
    key = hashlib.sha256(described.encode()).hexdigest()
    image = _storage().read(key)
    if image is not None:
        return image
    found = compiler()
    if found is None:
        raise Refused("there is no C++ compiler for Linux; apt-get install g++ brings one")
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, f"{name}.cpp"), Path(scratch, f"{name}.so")
        source.write_text(text, "utf-8")
        headers = ("-I", str(TEXTS), "-I", str(TEXTS / folder))
        command = [found, *_OPTIONS, *options, *headers, "-o", str(made), str(source), "-lgcc"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(done.stderr)
        image = made.read_bytes()
    _storage().write(key, image)
    return image


_BOUNDS: Final = [f"__{end}_{SHARED}" for end in ("start", "stop")]
_ENTRY: Final = "calor_entry"


def with_entry(text: str, call: str) -> str:
    """Return a text with a function of a pointer to arguments, and with its shared memory named."""
    weak = "".join(
        f'extern unsigned char {end}[] __attribute__((weak, visibility("hidden")));\n'
        for end in _BOUNDS
    )
    return (
        f'{text}\nextern "C" void {_ENTRY}(const void *arguments) {{\n  {call};\n}}\n'
        f'{weak}extern "C" {{\nunsigned char *calor_shared_bounds[2] = '
        f"{{{', '.join(_BOUNDS)}}};\n}}\n"
    )


def _loaded(image: bytes, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """Return a shared object in the process; its file is gone then."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(image)
        file.flush()
        return ctypes.CDLL(file.name, mode=mode)


@cache
def runtime() -> Any:
    """Return the library that runs cubes, whose names kernels find."""
    text = (TEXTS / "units.cpp").read_text("utf-8")
    found = _loaded(library(text, "", "units", *RUNTIME), ctypes.RTLD_GLOBAL)
    found.calor_run.restype = ctypes.c_char_p
    return found


# One launch at a time: the runtime has one set of stacks.
_LOCK = threading.Lock()


class Program:
    """A compiled kernel, of a text with an entry."""

    def __init__(self, image: bytes) -> None:
        self.run_cubes = runtime().calor_run
        loaded = _loaded(image)
        self.loaded = loaded
        self.body = ctypes.cast(getattr(loaded, _ENTRY), ctypes.c_void_p)
        bounds = (ctypes.c_void_p * 2).in_dll(loaded, "calor_shared_bounds")
        self.shared = bounds[0] or 0
        self.shared_bytes = (bounds[1] or 0) - self.shared

    def run(
        self, arguments: bytes, cubes: tuple[int, ...], units: tuple[int, ...], plane: int
    ) -> str | None:
        """Run cubes of units; return why they cannot go on, or None."""
        three = ctypes.c_uint32 * 3
        # The structure of arguments is aligned as its widest member.
        block = (ctypes.c_uint64 * max(len(arguments) // 8, 1)).from_buffer_copy(
            arguments or bytes(8)
        )
        with _LOCK:
            why = self.run_cubes(
                self.body,
                block,
                three(*cubes),
                three(*units),
                ctypes.c_uint32(plane),
                ctypes.c_void_p(self.shared),
                ctypes.c_uint64(self.shared_bytes),
            )
            return None if why is None else str(why.decode())
