"""The public functions of packages, for checks that find their subjects by signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def public_functions(
    packages: Sequence[str], without: Collection[str]
) -> Iterator[tuple[str, Callable[..., Any], inspect.Signature]]:
    """Yield name, function and signature of each function of the packages that are installed.

    A package names the parts of others that may not be installed; these are left out.

    A function that several packages have comes once, by its first name; ``without`` are names of
    functions that are left out.
    """
    seen: set[int] = set()
    for package in packages:
        if package.startswith("calor_") and find_spec(package.partition(".")[0]) is None:
            continue
        module = import_module(package)
        for name in sorted(dir(module)):
            found = None if name.startswith("_") else getattr(module, name, None)
            found = inspect.unwrap(found) if callable(found) else None
            if not inspect.isfunction(found) or name in without or id(found) in seen:
                continue
            seen.add(id(found))
            yield name, getattr(module, name), inspect.signature(found)
