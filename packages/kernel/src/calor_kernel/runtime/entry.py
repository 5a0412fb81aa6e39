"""A plugin's backend with a lazily loaded driver.

Requirements: an entry module imports nothing heavy. A library that fails to load raises at its use,
so that the doctor can still report it.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from calor.errors import PluginError
from calor_kernel.runtime.backend import KernelBackend


def lazy_backend(
    name: str, package: str, device: str, count: str, diagnosis: str = "diagnosis:diagnosis"
) -> KernelBackend:
    """Return a backend whose parts are given as "module:name" in a package.

    ``device`` opens a device by number, ``count`` returns the number of devices, and ``diagnosis``
    the doctor's rows. A part that fails to load raises a PluginError at its use.

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
