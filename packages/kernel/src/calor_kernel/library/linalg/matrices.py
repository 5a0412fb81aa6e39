"""What factorizations ask of a device, and the sizes of their matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from calor.dtypes import DType, float32, float64
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid
from calor_kernel.contract.work import Refusal, View
from calor_kernel.library.copying.transfer import index_of

# Bytes of an access of shared memory, and the units of a core whose registers hold their values.
_ACCESS, _UNITS = 16, 512


@dataclass(frozen=True, slots=True)
class Matrices:
    """A dense batch of matrices, of ``rows`` × ``columns`` elements each."""

    info: DeviceInfo
    dtype: DType
    batch: int
    rows: int
    columns: int

    @staticmethod
    def of(x: View, info: DeviceInfo) -> Matrices:
        """Return the matrices of a view's last two axes."""
        *lead, rows, columns = x.shape
        return Matrices(info, x.dtype, prod(lead), rows, columns)

    def refusal(self, units: int) -> Refusal | None:
        """Return why cubes of so many units cannot factorize these, None if they can."""
        refused = self.refusal_of_units()
        if refused is not None:
            return refused
        if not self.info.has("barrier") or self.info.max_units < units:
            return Refusal(f"a cube has fewer than {units} units")
        return None

    def refusal_of_units(self) -> Refusal | None:
        """Return why a unit cannot factorize these, None if it can."""
        if self.dtype not in (float32, float64):
            return Refusal(f"matrices are factorized in float32 and float64, not {self.dtype}")
        if self.dtype not in self.info.dtypes:
            return Refusal(f"the device does not compute in {self.dtype}")
        return None

    def room(self, count: int) -> int:
        """Return the bytes of shared memory of so many elements."""
        return self.info.shared_room(count, self.dtype.itemsize)

    def grid(self, cubes: int, units: int, ends: Sequence[int] = ()) -> Grid:
        """Return a line of cubes that index these matrices, and memory up to ``ends``."""
        size = self.batch * self.rows * self.columns
        return Grid.line(cubes, units, index=index_of([size, *ends], self.info))


def lanes_of(dtype: DType) -> int:
    """Return the elements of an access of shared memory.

    >>> lanes_of(float32), lanes_of(float64)
    (4, 2)
    """
    return _ACCESS // int(dtype.itemsize)


def keep_registers() -> None:
    """Let compilers keep the values of a unit in registers: few cubes share a core."""
    kl.launch_attributes(cubes_per_core=max(1, _UNITS // kl.cube_size()))


def minus_product(a: kl.Number, b: kl.Number, c: kl.Number) -> kl.Number:
    """Return c − a b, rounded once."""
    return kl.fma(-a, b, c)
