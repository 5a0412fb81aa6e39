"""Methods that change shapes and the order of elements; each calls the function of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import calor
from calor.errors import ArgumentError
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.functions.operands import Axis
    from calor.tensor.tensor import Tensor


def _numbers(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return ``(2, 3)`` for the arguments ``(2, 3)`` as for ``((2, 3),)``."""
    if len(given) == 1 and not isinstance(given[0], int):
        return tuple(given[0])
    return given


class ShapeMethods(Handle):
    """Shapes, order of axes, splitting, repeating, picking."""

    __slots__ = ()

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The elements in row-major order under another shape; one size may be −1."""
        return calor.reshape(self, _numbers(shape))

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """The tensor with the axes from ``start_axis`` to ``end_axis`` joined into one."""
        return calor.flatten(self, start_axis=start_axis, end_axis=end_axis)

    def ravel(self) -> Tensor:
        """The elements in row-major order along one axis."""
        return calor.reshape(self, (-1,))

    def squeeze(self, axis: Axis = None) -> Tensor:
        """The tensor without axes of size 1: those given, or all."""
        return calor.squeeze(self, axis=axis)

    def expand_dims(self, axis: int | tuple[int, ...] = 0) -> Tensor:
        """The tensor with new axes of size 1 that stand at ``axis`` in the result."""
        return calor.expand_dims(self, axis=axis)

    def permute_dims(self, *axes: int | Sequence[int]) -> Tensor:
        """The tensor with its axes in another order."""
        return calor.permute_dims(self, _numbers(axes))

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """The tensor with its axes in the order given, reversed without arguments, as in NumPy.

        Two axes given one by one that would stay where they are raise ArgumentError: PyTorch
        exchanges them, which is ``swapaxes`` here.
        """
        if axes == (0, 1):
            raise ArgumentError(
                "transpose(0, 1) leaves a matrix as it is; x.swapaxes(0, 1) or x.T exchanges the "
                "axes, x.transpose((0, 1)) keeps them"
            )
        return calor.transpose(self, _numbers(axes) if axes else None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """The tensor with two axes exchanged."""
        return calor.swapaxes(self, axis1, axis2)

    def moveaxis(self, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
        """The tensor with axes moved to other places; the others keep their order."""
        return calor.moveaxis(self, source, destination)

    def broadcast_to(self, *shape: int | Sequence[int]) -> Tensor:
        """The tensor repeated along new axes and axes of size 1 to a shape."""
        return calor.broadcast_to(self, _numbers(shape))

    def flip(self, axis: Axis = None) -> Tensor:
        """The elements in reverse order along axes, all of them unless given."""
        return calor.flip(self, axis=axis)

    def roll(
        self, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
    ) -> Tensor:
        """The elements moved on by ``shift`` places; those that leave come in at the other end."""
        return calor.roll(self, shift, axis=axis)

    def repeat(self, repeats: int | Tensor, axis: int | None = None) -> Tensor:
        """Each element repeated, as in NumPy; ``tile`` repeats the whole."""
        return calor.repeat(self, repeats, axis=axis)

    def tile(self, *repetitions: int | Sequence[int]) -> Tensor:
        """The whole tensor repeated along each axis."""
        return calor.tile(self, _numbers(repetitions))

    def split(self, sizes: Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
        """Parts of the given sizes along an axis."""
        return calor.split(self, sizes, axis=axis)

    def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
        """A number of parts along an axis, of sizes that differ by at most one."""
        return calor.chunk(self, chunks, axis=axis)

    def unstack(self, axis: int = 0) -> tuple[Tensor, ...]:
        """The slices along an axis, without that axis."""
        return calor.unstack(self, axis=axis)

    def take(self, indices: Tensor, axis: int | None = None) -> Tensor:
        """The slices at the given places along an axis."""
        return calor.take(self, indices, axis=axis)

    def take_along_axis(self, indices: Tensor, axis: int = -1) -> Tensor:
        """One element per index along an axis; indices have the tensor's rank."""
        return calor.take_along_axis(self, indices, axis=axis)

    def tril(self, k: int = 0) -> Tensor:
        """The lower triangles: zeros above the k-th diagonal of the last two axes."""
        return calor.tril(self, k=k)

    def triu(self, k: int = 0) -> Tensor:
        """The upper triangles: zeros below the k-th diagonal of the last two axes."""
        return calor.triu(self, k=k)

    def matmul(self, other: Tensor) -> Tensor:
        """The matrix product, as ``x @ other``."""
        return calor.matmul(self, other)
