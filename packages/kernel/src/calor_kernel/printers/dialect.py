"""What tells one C-like language from another: data, and a few short methods.

Requirements: a new language of the family is one subclass that mostly fills in tables; nothing of
one language stands in the common printer; what a language lacks is refused with a typed error that
names the operation, never printed wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NoReturn, Protocol

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor.errors import CompileError
from calor_kernel.ir.nodes import Kernel, Memory, Operation, Parameter
from calor_kernel.ir.types import Type
from calor_kernel.printers import numbers
from calor_kernel.printers.expressions import ATOM, SUM, UNARY, Expression, choice, infix, prefix

# Prints an operation: a function of the printer, the operation and its block.
Statement = Callable[..., None]

# The lanes of a value that is printed, each with its type.
Values = Sequence[tuple[Expression, DType]]

UNSIGNED = MappingProxyType({1: uint8, 2: uint16, 4: uint32, 8: uint64})
_NOTHING: Mapping[str, str] = MappingProxyType({})


def in_memory(type: Type) -> Type:
    """Return the type that a vector has in memory, where bools are bytes."""
    return Type(uint8, type.width) if type.dtype is bool_ else type


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# How OpenCL C and the languages after it call the types that all devices have.
SHORT_NAMES: Final = MappingProxyType(
    {
        bool_: "bool",
        int8: "char",
        int16: "short",
        int32: "int",
        int64: "long",
        uint8: "uchar",
        uint16: "ushort",
        uint32: "uint",
        uint64: "ulong",
        float32: "float",
    }
)
# Functions that most languages of the family have; a kernel or variable is called otherwise.
FUNCTIONS: Final = words(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz copysign cos cosh dot erf erfc exp "
    "exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot isinf isnan ldexp lgamma log log10 "
    "log1p log2 max min modf nextafter popcount pow printf remainder rint round rsqrt select "
    "signbit sin sinh sqrt tan tanh tgamma trunc INFINITY NAN"
)


class Helpers(Protocol):
    """The helper functions that a kernel's text uses, by name."""

    texts: dict[str, str]

    def name(self, helper: str, *dtypes: DType) -> str:
        """Return the name of a helper for some dtypes, and print it if it is new."""

    def add(self, name: str, text: str) -> str:
        """Print a function of a language's own under a name, once."""


class Dialect:
    """A C-like language.

    ``types`` names the element types of values; float16 and bfloat16 are held as their bits where
    the table has no name of their own for them, and only moved and converted. ``templates`` are
    texts of operations in the language's own functions: of ``"name"``, ``"name kind"`` or ``"name
    dtype"``, the longest found; ``{0}`` is an operand, ``{T}`` the result's type. What has none is
    computed by helper functions in plain C. ``reserved`` are words that no variable may be called.
    ``inline_names``: the languages whose intrinsic texts this one understands, the best first.
    ``wraps``: whether signed integers wrap around by themselves. ``fast_fma``: whether a fused
    multiply-add is one instruction, so that what may be contracted is. ``spaces``: the words before
    the type that a pointer points to, by the memory that it is of. ``positions``: how a unit asks
    where it is; ``{0}`` is the axis as a letter, ``{1}`` as a number. ``own_helpers`` are names and
    texts of functions in the place of helpers in C, by the helper's name and its dtypes.
    """

    name: ClassVar[str]
    inline_names: ClassVar[tuple[str, ...]] = ()
    wraps: ClassVar[bool] = False
    function_prefix: ClassVar[str] = "static inline"
    restrict: ClassVar[str] = "restrict"
    suffixes: ClassVar[Mapping[str, str]] = MappingProxyType({"float32": "f", "uint32": "u"})
    reserved: ClassVar[frozenset[str]] = words(
        "auto break case char const continue default do double else enum extern float for goto "
        "if inline int long register restrict return short signed sizeof static struct switch "
        "typedef union unsigned void volatile while bool true false main"
    )
    # Operations that the language prints as a whole in its own way, by name.
    statements: Mapping[str, Statement] = MappingProxyType({})
    types: Mapping[DType, str]
    templates: Mapping[str, str] = _NOTHING
    spaces: Mapping[str, str] = _NOTHING
    positions: Mapping[str, str] = _NOTHING
    own_helpers: Mapping[str, tuple[str, str]] = MappingProxyType({})
    fast_fma: bool = False

    def entry(self, name: str) -> str:
        """Return what a kernel's function is called in the text: its name, if that may be."""
        return f"{name}_" if name in self.reserved else name

    # Types and numbers.
    def computes(self, dtype: DType) -> bool:
        """Return whether the language has arithmetic of a type."""
        return dtype in self.types

    def type(self, type: Type) -> str:
        """Return the type of a value."""
        if type.width > 1:
            return self.vector_type(type)
        return self.types[self.held(type.dtype)]

    def held(self, dtype: DType) -> DType:
        """Return the dtype whose values stand for a dtype's: its bits where it has no name."""
        return dtype if dtype in self.types else self.bits(dtype)

    def storage(self, dtype: DType) -> str:
        """Return the type of an element in memory."""
        return self.types[uint8] if dtype is bool_ else self.types[self.held(dtype)]

    def bits(self, dtype: DType) -> DType:
        """Return the unsigned dtype of the same size."""
        return UNSIGNED[dtype.itemsize]

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the numbers of lanes that a value may have, ascending; others are split before."""
        return (1,)

    def literal(self, number: bool | int | float, dtype: DType) -> Expression:
        """Return a number as text."""
        if dtype is bool_:
            return Expression("true" if number else "false", bare=True)
        if dtype.kind != "float":
            suffix = self.suffixes.get(dtype.name, "")
            text = numbers.integer(int(number), dtype, suffix)
            return Expression(text, UNARY if text.startswith("-") else ATOM, bare=True)
        if not self.computes(dtype):
            return Expression(hex(numbers.bits_of(number, dtype)), bare=True)
        if numbers.is_special(number):
            return self.special(float(number), dtype)
        suffix = self.suffixes.get(dtype.name, "")
        text = numbers.decimal_or_hexadecimal(float(number)) + suffix
        made = Expression(text, UNARY if text.startswith("-") else ATOM, bare=True)
        return self.cast(dtype, made) if dtype in (float16, bfloat16) else made

    def special(self, number: float, dtype: DType) -> Expression:
        """Return an infinity or NaN."""
        name = "NAN" if number != number else "INFINITY"
        made = Expression(name, bare=True)
        if dtype is not float32:
            made = self.cast(dtype, made)
        return prefix("-", made) if number < 0 else made

    def cast(self, dtype: DType, value: Expression) -> Expression:
        """Return a number converted as the language converts without being asked."""
        return prefix(f"({self.types[dtype]})", value)

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits as another type of the same size, both as they are held."""
        raise NotImplementedError

    def choose(self, condition: Expression, a: Expression, b: Expression) -> Expression:
        """Return a where the condition holds, else b, of scalars."""
        return choice(condition, a, b)

    def own_helper(self, name: str, *dtypes: DType) -> tuple[str, str] | None:
        """Return name and text of a function of the language's own, in a helper's place."""
        return self.own_helpers.get("_".join((name, *(d.name for d in dtypes))))

    # Vectors. Languages without them keep these.
    def vector_type(self, type: Type) -> str:
        """Return the type of several lanes."""
        self.refuse(f"values of {type}")

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a vector of scalars."""
        self.refuse(f"values of {type}")

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a lane of a vector, which is a name."""
        self.refuse(f"values of {type}")

    def vector_operation(
        self, operation: Operation, operands: Sequence[Expression], helpers: Helpers
    ) -> Expression | None:
        """Return an operation on whole vectors, or None to do it lane by lane."""
        return None

    def vector_load(
        self, name: str, memory: Memory, index: Expression, type: Type, aligned: bool
    ) -> Expression:
        """Return consecutive elements of a memory, whose name is given, as a value."""
        stored, place = in_memory(type), infix("+", SUM, Expression(name), index)
        if not aligned:
            return self.gather(memory, type, place)
        made = self.pointed(memory, f"const {self.type(stored)}", place)
        return made if stored is type else self.bools_of(made, stored, type)

    def vector_store(
        self,
        name: str,
        memory: Memory,
        index: Expression,
        value: Expression,
        type: Type,
        aligned: bool,
    ) -> str:
        """Return the statement that writes consecutive elements."""
        stored, place = in_memory(type), infix("+", SUM, Expression(name), index)
        if not aligned:
            return self.scatter(memory, type, place, value)
        value = value if stored is type else self.bytes_of(value, stored, type)
        return f"{self.pointed(memory, self.type(stored), place).text} = {value.text};"

    def pointed(self, memory: Memory, type: str, place: Expression) -> Expression:
        """Return what is at an address of a memory, as a type of the language."""
        if memory.space not in self.spaces:
            self.refuse(f"pointers to {memory.space} memory")
        return prefix("*", prefix(f"({f'{self.spaces[memory.space]} {type} *'.lstrip()})", place))

    def gather(self, memory: Memory, type: Type, place: Expression) -> Expression:
        """Return the elements from an address on, which is aligned for one of them alone."""
        self.refuse(f"loads of {type}")

    def scatter(self, memory: Memory, type: Type, place: Expression, value: Expression) -> str:
        """Return the statement that writes from an address on, aligned for one element alone."""
        self.refuse(f"stores of {type}")

    def bools_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return a vector of bools, made of the bytes that they are in memory."""
        self.refuse(f"loads of {type}")

    def bytes_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return the bytes, 0 and 1, of a vector of bools."""
        self.refuse(f"stores of {type}")

    # Statements and declarations.
    def parameter(self, parameter: Parameter, name: str) -> str:
        """Return the declaration of a kernel's number, or of a pointer to its memory."""
        type = self.storage(parameter.declared.dtype)
        if parameter.memory is None:
            return f"{type} {name}"
        # Nothing writes a memory that is only read, which is what restrict promises.
        pointer = f"{type} *" if parameter.memory.writable else f"const {type} *{self.restrict} "
        return f"{self.spaces[parameter.memory.space]} {pointer}{name}".lstrip()

    def declare(self, type: Type, name: str, value: Expression | None = None) -> str:
        """Return the declaration of a variable."""
        return f"{self.type(type)} {name}" + (f" = {value.text};" if value is not None else ";")

    def keep(self, type: Type, name: str, value: Expression) -> str:
        """Return the statement that gives a value a name; nothing else is ever written to it."""
        return self.declare(type, name, value)

    def function(
        self,
        name: str,
        result: DType,
        parameters: Sequence[tuple[DType, str]],
        lines: Sequence[str],
        *,
        constant: bool = False,
    ) -> str:
        """Return a function of scalars.

        Its lines may change the first parameter, unless they take it as a ``constant``.
        """
        given = ", ".join(f"{self.type(Type(dtype))} {own}" for dtype, own in parameters)
        head = f"{self.function_prefix} {self.type(Type(result))} {name}({given}) {{"
        return "\n".join((head, *(f"  {line}" for line in lines), "}"))

    def unroll(self, times: int) -> str:
        """Return the line before a loop that asks for unrolling, or nothing."""
        return f"#pragma unroll {times}"

    def declare_memory(self, memory: Memory, name: str) -> str:
        """Return the declaration of shared or private memory."""
        return f"{self.storage(memory.type.dtype)} {name}[{memory.size}];"

    def declare_memories(self, kernel: Kernel, names: Sequence[str]) -> Sequence[str]:
        """Return the declarations of all that a kernel has, under these names."""
        pairs = zip(kernel.memories, names, strict=True)
        return [self.declare_memory(memory, name) for memory, name in pairs]

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return the whole text; ``names`` are the parameters' and ``body`` is indented."""
        raise NotImplementedError

    # Positions, and units together.
    def position(self, name: str, axis: int, dtype: DType) -> Expression:
        """Return where a unit is: an operation's name, such as cube_position, and its axis."""
        if name not in self.positions:
            self.refuse(name)
        return self.cast(dtype, Expression(self.positions[name].format("xyz"[axis], axis)))

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return the statement that waits for the units of a scope."""
        self.refuse(f"barriers of a {scope}")

    def fence(self, scope: str, order: str) -> str:
        """Return the statement that orders accesses."""
        self.refuse("fences")

    def atomic(
        self,
        operation: Operation,
        place: Expression,
        values: Sequence[Expression],
        helpers: Helpers,
    ) -> Expression:
        """Return what changes an element, whose address is ``place``, and is what it was."""
        self.refuse("atomics")

    def ordered(self, memory: Memory, place: Expression) -> Expression:
        """Return the element for a load or store that other units see, between fences.

        It is an access that the compiler neither moves nor keeps in a register.
        """
        type = self.storage(memory.type.dtype)
        return self.pointed(memory, f"volatile {type}", prefix("&", place))

    def prefetch(self, memory: Memory, place: Expression) -> str:
        """Return the statement that asks for a cache line, or nothing."""
        return ""

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return the value of another unit of the plane: "index", "xor", "up" or "down".

        Up and down keep a unit's own value where there is no other.
        """
        self.refuse("planes")

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return an operation of a plane, or None to make it of shuffles."""
        return None

    def printed(self, text: str, values: Sequence[Values]) -> str:
        """Return the statement that prints a text for people; each ``{}`` is lanes of a value."""
        self.refuse("prints")

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for what the language does not have."""
        raise CompileError(f"{self.name} has no {what}; choose a variant of the kernel without")
