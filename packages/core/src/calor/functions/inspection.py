"""What the namespace can do, in the words of the Python Array API standard."""

from __future__ import annotations

from typing import Any

from calor import dtypes
from calor.backends.device import Device
from calor.device_control import devices
from calor.device_selection import as_device, current_device
from calor.dtypes import DType
from calor.functions.data_types import isdtype

_STANDARD = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
    "complex64",
    "complex128",
)


class NamespaceInfo:
    """The inspection functions of the standard; obtain it with ``__array_namespace_info__()``.

    >>> import calor
    >>> calor.__array_namespace_info__().default_dtypes()["real floating"]
    calor.float32
    """

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard calor has.

        Returns
        -------
        dict of str to Any
            "boolean indexing" and "data-dependent shapes" (both True), and "max dimensions", the
            largest number of axes of a tensor.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> Device:
        """Return the device on which tensors are made when none is named.

        Returns
        -------
        Device
            The innermost ``with calor.device(...)``, else the process's default.
        """
        return current_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the dtypes that functions choose when none is named.

        Parameters
        ----------
        device : Device or str, optional
            Not used: the defaults are the same on all devices.

        Returns
        -------
        dict of str to DType
            By "real floating", "complex floating", "integral" and "indexing".
        """
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.DEFAULT_INT,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """Return the standard's dtypes that a device has.

        Parameters
        ----------
        device : Device or str, optional
            The device to ask. By default the current device.
        kind : str or tuple of str, optional
            Kinds as in `calor.isdtype`. By default all.

        Returns
        -------
        dict of str to DType
            The dtypes by name.

        Raises
        ------
        ArgumentError
            If ``kind`` is none of the kinds.
        """
        target = current_device() if device is None else as_device(device)
        known = {name: dtypes.as_dtype(name) for name in _STANDARD}
        return {
            name: dtype
            for name, dtype in known.items()
            if target.info.dtypes.get(dtype) and (kind is None or isdtype(dtype, kind))
        }

    def devices(self) -> list[Device]:
        """Return the devices that are present, as `calor.devices` does.

        Returns
        -------
        list of Device
            Every device of every backend that loads.
        """
        return devices()


def __array_namespace_info__() -> NamespaceInfo:
    """Return the standard's inspection functions for this namespace.

    Returns
    -------
    NamespaceInfo
        An object with ``capabilities``, ``default_device``, ``default_dtypes``, ``dtypes`` and
        ``devices``.

    References
    ----------
    Python array API standard 2024.12, ``__array_namespace_info__``.

    Examples
    --------
    >>> import calor
    >>> calor.__array_namespace_info__().capabilities()["boolean indexing"]
    True
    """
    return NamespaceInfo()
