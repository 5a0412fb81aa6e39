"""Methods that are sugar for the functions of the same name, by theme."""

from __future__ import annotations

from calor.functions.error_functions import ErrorFunctionMethods
from calor.functions.logarithms import LogarithmMethods
from calor.functions.signals import SignalMethods
from calor.keywords import explain_methods
from calor.tensor.methods_elementwise import ElementwiseMethods
from calor.tensor.methods_neural import NeuralMethods
from calor.tensor.methods_reductions import ReductionMethods
from calor.tensor.methods_shape import ShapeMethods
from calor.tensor.methods_types import TypeMethods


class Methods(
    ElementwiseMethods,
    ErrorFunctionMethods,
    LogarithmMethods,
    SignalMethods,
    ReductionMethods,
    ShapeMethods,
    NeuralMethods,
    TypeMethods,
):
    """All methods that only call a function."""

    __slots__ = ()


for _kind in Methods.__bases__:
    explain_methods(_kind)
