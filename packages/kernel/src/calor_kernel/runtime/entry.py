"""The backend of a plugin whose driver is loaded when somebody asks for a device.

Requirements: an entry module imports nothing heavy, and a library that does not load fails where it
is needed: the doctor can still say what is missing.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from calor.errors import PluginError
from calor_kernel.runtime.backend import KernelBackend


def lazy_backend(
    name: str, package: str, device: str, count: str, diagnosis: str = "diagnosis:diagnosis"
) -> KernelBackend:
    """Return the backend of devices, whose parts are named by module in a package and name there.

    ``device`` opens the device of a number, ``count`` returns how many there are, and ``diagnosis``
    what the doctor is told. What does not load is a PluginError where it is asked for.

    >>> lazy_backend("acme", "acme_package", "device:AcmeDevice", "driver:count").name
    'acme'
    """

    def part(named: str) -> Any:
        try:
            return resolve_name(f"{package}.{named}")
        except ImportError as error:
            raise PluginError(
                f"{package} does not load: {error}; `python -m calor doctor` says what it finds, "
                f'and `pip install "calor[{name}]"` installs what it needs'
            ) from error

    return KernelBackend(
        name,
        lambda number: part(device)(number),
        lambda: int(part(count)()),
        diagnose=lambda: part(diagnosis)(),
    )
