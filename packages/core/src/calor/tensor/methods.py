"""Methods that are sugar for the functions of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


class Methods(Handle):
    """Sugar: each method calls the function of its name."""

    __slots__ = ()

    def sum(self) -> Tensor:
        """See :func:`calor.sum`."""
        from calor.functions import reductions

        return reductions.sum(self)  # type: ignore[arg-type]
