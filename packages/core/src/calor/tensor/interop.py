"""What other libraries and the array API standard ask of a tensor."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from calor.errors import ShapeError
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor

# Versions of the array API standard whose names and meanings calor has.
STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12")


class Interop(Handle):
    """The array API standard's attributes, and the answers to NumPy and pandas."""

    __slots__ = ()

    # NumPy leaves an operation with a tensor to the tensor instead of looping over elements, and
    # its functions (np.sin(x)) raise TypeError instead of making an array of objects.
    __array_ufunc__ = None
    __array_priority__ = 1000.0
    # pandas leaves operations with a Series, Index or DataFrame to the tensor.
    __pandas_priority__ = 5000

    if not TYPE_CHECKING:  # Checkers should see what a tensor has, and nothing else.

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"a tensor has no {name!r}", name=name, obj=self)
            from calor.migration import missing_method

            raise missing_method(self, name)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return calor; ValueError for a version of the standard that it does not have."""
        if api_version is not None and api_version not in STANDARDS:
            raise ValueError(
                f"calor has the array API standard of {', '.join(STANDARDS)}, not {api_version!r}"
            )
        import calor

        return calor

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix; ShapeError unless there are two axes (see ``mT``)."""
        if self._value.spec.ndim != 2:
            raise ShapeError(
                f"x.T is for 2 axes, this tensor has shape {self._value.spec.shape}; x.mT swaps "
                f"the last two, x.permute_dims(axes) takes any order"
            )
        return self.mT

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes swapped; ShapeError for fewer than two."""
        from calor.ops.movement import permute

        ndim = self._value.spec.ndim
        if ndim < 2:
            raise ShapeError(f"x.mT needs two axes, this tensor has shape {self._value.spec.shape}")
        made: Tensor = permute(self, axes=(*range(ndim - 2), ndim - 1, ndim - 2))
        return made

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on another device, itself if it is there; see :func:`calor.asarray`."""
        from calor.functions.creation import to_device

        return to_device(self, device, stream=stream)  # type: ignore[arg-type]
