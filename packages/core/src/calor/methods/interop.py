"""What other libraries and the array API standard ask of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from calor.errors import ShapeError
from calor.functions import conversion
from calor.ops.movement import permute
from calor.recording.views import PERMUTE, note_view
from calor.tensor.tensor import Tensor, with_methods
from calor.tensor.values import Handle

# NumPy's functions behind its operators: the sign, and the methods that a tensor has for it when it
# stands first and when it stands second.
_OPERATORS: Final = {
    "add": ("+", "__add__", "__radd__"),
    "subtract": ("-", "__sub__", "__rsub__"),
    "multiply": ("*", "__mul__", "__rmul__"),
    "divide": ("/", "__truediv__", "__rtruediv__"),
    "floor_divide": ("//", "__floordiv__", "__rfloordiv__"),
    "remainder": ("%", "__mod__", "__rmod__"),
    "power": ("**", "__pow__", "__rpow__"),
    "matmul": ("@", "__matmul__", "__rmatmul__"),
    "left_shift": ("<<", "__lshift__", "__rlshift__"),
    "right_shift": (">>", "__rshift__", "__rrshift__"),
    "bitwise_and": ("&", "__and__", "__rand__"),
    "bitwise_or": ("|", "__or__", "__ror__"),
    "bitwise_xor": ("^", "__xor__", "__rxor__"),
    "less": ("<", "__lt__", "__gt__"),
    "less_equal": ("<=", "__le__", "__ge__"),
    "greater": (">", "__gt__", "__lt__"),
    "greater_equal": (">=", "__ge__", "__le__"),
    "equal": ("==", "__eq__", "__eq__"),
    "not_equal": ("!=", "__ne__", "__ne__"),
}


@with_methods
class Interop(Tensor):
    """The array API standard's attributes, and the answers to NumPy and pandas."""

    __slots__ = ()

    __array_priority__ = 1000.0
    # pandas leaves operations with a Series, Index or DataFrame to the tensor.
    __pandas_priority__ = 5000

    if not TYPE_CHECKING:  # Checkers should see what a tensor has, and nothing else.

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"a tensor has no {name!r}", name=name, obj=self)
            from calor.migration import missing_method

            raise missing_method(self, name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute an elementwise function of NumPy by calor's; TypeError where it has none.

        Without it NumPy would loop over elements or make an array of objects.
        """
        name = ufunc.__name__
        sign, first, second = _OPERATORS.get(name, ("", "", ""))
        if sign and method == "__call__" and not options:
            a, b = inputs
            return getattr(a, first)(b) if isinstance(a, Handle) else getattr(b, second)(a)
        if sign and method == "__call__" and not isinstance(options.get("out", (self,))[0], Handle):
            raise TypeError(
                f"a NumPy array does not take the result of {sign} with a tensor; write "
                f"array = array {sign} x for a tensor, or array {sign}= x.numpy()"
            )
        from calor.methods import numpy_functions

        return numpy_functions.ufunc(self.__array_namespace__(), ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute a function of NumPy by calor's of that meaning; TypeError where it has none."""
        from calor.methods import numpy_functions

        return numpy_functions.function(self.__array_namespace__(), function, args, kwargs)

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
        ndim = self._value.spec.ndim
        if ndim < 2:
            raise ShapeError(f"x.mT needs two axes, this tensor has shape {self._value.spec.shape}")
        order = (*range(ndim - 2), ndim - 1, ndim - 2)
        made: Tensor = note_view(permute(self, axes=order), self, PERMUTE, order)
        return made

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """Return the tensor on another device; see `calor.to_device`.

        Parameters
        ----------
        device : Device or str
            The device, or its name such as "cuda:0".
        stream : Any, optional
            Not used; the standard has the parameter.

        Returns
        -------
        Tensor
            The tensor itself if it is there already.
        """
        return conversion.to_device(self, device, stream=stream)
