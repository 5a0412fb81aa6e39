"""Compilation of a kernel to an image of an OpenCL device: its text, and the driver's binary.

Requirements: printing needs no driver, and compiling only a context, created on use, so a toolchain
can be pickled to worker processes. calor caches images on disk itself, without pyopencl's cache. If
a driver returns no binary, or refuses it, the text is used. A driver compiles a binary again, so a
program that this process built is kept until it is loaded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from calor.errors import CompileError
from calor_kernel.device.printing import PrintingToolchain
from calor_opencl.opencl_c import OpenCLC

# An image is the length of the text in this number of bytes, the text, and the binary if any.
_LENGTH: Final = 8
# Programs that are kept until they are loaded: those of a plan that is compiled at once.
_KEPT: Final = 64


class OpenCLToolchain(PrintingToolchain):
    """Kernels as OpenCL C and as binaries of one device.

    ``dialect`` describes the device, ``options`` are the compiler's. ``number`` is the device's
    index in the list of all; None makes a toolchain that only prints.
    """

    def __init__(
        self, dialect: OpenCLC, target: str, options: str = "", number: int | None = None
    ) -> None:
        self.dialect = dialect
        self.target = target
        self.options = options
        self.number = number
        # Built programs by their images, the oldest first.
        self._built: dict[bytes, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what belongs to this process."""
        return {**self.__dict__, "_built": {}}

    def compile(self, source: str, name: str) -> bytes:
        """Return the driver's binary.

        Raises
        ------
        CompileError
            If the driver refuses the text; the message has the build log and the text.
        """
        from ._bindings import build, context, image

        program = build(context(self.place()), source, self.options, name)
        text = source.encode()
        made = len(text).to_bytes(_LENGTH, "little") + text + image(program)
        # Another thread may take one meanwhile.
        for oldest in [*self._built][: max(len(self._built) + 1 - _KEPT, 0)]:
            self._built.pop(oldest, None)
        self._built[made] = program
        return made

    def program(self, image: bytes, name: str) -> Any:
        """Return the built program of an image, from its binary if the driver accepts it.

        An image that was compiled here is loaded once, with the program that was built then.
        """
        kept = self._built.pop(image, None)
        if kept is not None:
            return kept
        from ._bindings import build, context

        start = _LENGTH + int.from_bytes(image[:_LENGTH], "little")
        text, binary = image[_LENGTH:start].decode(), image[start:]
        if binary:
            with suppress(CompileError):
                return build(context(self.place()), binary, self.options, name)
        return build(context(self.place()), text, self.options, name)
