"""The differences between C-like languages: data, and a few short methods.

An operation that a language lacks raises a typed error with its name; it is never printed wrongly.
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
    float64,
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
from calor_kernel.ir.types import UNSIGNED, Type
from calor_kernel.printers import numbers
from calor_kernel.printers.expressions import ATOM, SUM, UNARY, Expression, choice, infix, prefix

# Prints an operation: takes the printer, the operation and its block.
Statement = Callable[..., None]

# The lanes of a printed value, each with its dtype.
Values = Sequence[tuple[Expression, DType]]

_LINE: Final = 70
_NOTHING: Mapping[str, str] = MappingProxyType({})


def in_memory(type: Type) -> Type:
    """Return the in-memory type of a vector, with bools as bytes."""
    return Type(uint8, type.width) if type.dtype is bool_ else type


def words(text: str) -> frozenset[str]:
    """Return the whitespace-separated words of a text."""
    return frozenset(text.split())


# The names of the common types in OpenCL C and in the languages derived from it.
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
# Functions of most languages of the family; kernels and variables must not use these names.
FUNCTIONS: Final = words(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz copysign cos cosh dot erf erfc exp "
    "exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot isinf isnan ldexp lgamma log log10 "
    "log1p log2 max min modf nextafter popcount pow printf remainder rint round rsqrt select "
    "signbit sin sinh sqrt tan tanh tgamma trunc INFINITY NAN"
)


def listed(parts: Sequence[str], indent: str = "    ") -> str:
    """Return parameters on one line, or on separate lines if that is too long."""
    line = ", ".join(parts)
    if len(line) <= _LINE:
        return line
    return "".join(f"\n{indent}{part}," for part in parts).removesuffix(",")


class Helpers(Protocol):
    """The helper functions of a kernel's text, by name."""

    texts: dict[str, str]

    def name(self, helper: str, *dtypes: DType) -> str:
        """Return the name of a helper for some dtypes; a new helper is printed."""

    def add(self, name: str, text: str) -> str:
        """Print a language-specific function under a name, once."""


class Dialect:
    """A C-like language.

    ``types`` names the element types of values. float16 and bfloat16 without a name in this table
    are held as bits, and only moved and converted. ``templates`` are expressions in the language's
    own functions, keyed by ``"name"``, ``"name kind"`` or ``"name dtype"``; the longest match wins.
    ``{0}`` is an operand, ``{T}`` the result's type. Operations without a template use helper
    functions in plain C. ``reserved`` are words forbidden as variable names. ``inline_names``: the
    languages whose inline texts this one accepts, best first. ``wraps``: whether signed overflow
    wraps around. ``fast_fma``: whether a fused multiply-add is one instruction, so that
    contractions are allowed. ``loads_early``: whether compilers leave loads behind the stores
    before them. ``spaces``: the address-space qualifiers by memory space. ``positions``: the
    expressions of a unit's position; ``{0}`` is the axis as a letter, ``{1}`` as a number.
    ``own_helpers`` are names and texts of functions that replace C helpers, keyed by the
    helper's name and its dtypes.
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
    # Operations with a printing function of the language's own, by name.
    statements: Mapping[str, Statement] = MappingProxyType({})
    types: Mapping[DType, str]
    templates: Mapping[str, str] = _NOTHING
    spaces: Mapping[str, str] = _NOTHING
    positions: Mapping[str, str] = _NOTHING
    own_helpers: Mapping[str, tuple[str, str]] = MappingProxyType({})
    fast_fma: bool = False
    loads_early: bool = False
    printf: tuple[str, str, str] | None = None

    def entry(self, name: str) -> str:
        """Return a kernel's function name in the text, changed if the language reserves it."""
        return f"{name}_" if name in self.reserved else name

    # Types and numbers.
    def computes(self, dtype: DType) -> bool:
        """Return whether the language has arithmetic for a dtype."""
        return dtype in self.types

    def type(self, type: Type) -> str:
        """Return the type of a value."""
        if type.width > 1:
            return self.vector_type(type)
        return self.types[self.held(type.dtype)]

    def held(self, dtype: DType) -> DType:
        """Return the dtype that holds a dtype's values: its bits if the language lacks it."""
        return dtype if dtype in self.types else self.bits(dtype)

    def storage(self, dtype: DType) -> str:
        """Return the type of an element in memory."""
        return self.types[uint8] if dtype is bool_ else self.types[self.held(dtype)]

    def bits(self, dtype: DType) -> DType:
        """Return the unsigned dtype of the same size."""
        return UNSIGNED[dtype.itemsize]

    def widths(self, dtype: DType) -> tuple[int, ...]:
        """Return the supported vector widths, ascending; wider values are split before printing."""
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
        """Return a number with the language's own conversion."""
        return prefix(f"({self.types[dtype]})", value)

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a scalar's bits reinterpreted as another type of the same size, both as held."""
        raise NotImplementedError

    def choose(self, condition: Expression, a: Expression, b: Expression) -> Expression:
        """Return ``a`` where the condition holds, else ``b``, for scalars."""
        return choice(condition, a, b)

    def choose_as(
        self, dtype: DType, condition: Expression, a: Expression, b: Expression
    ) -> Expression:
        """Return :meth:`choose` in a dtype.

        C promotes a choice of two narrow integers to int, which their functions do not accept.
        """
        chosen = self.choose(condition, a, b)
        narrow = dtype.kind in ("int", "uint") and dtype.itemsize < 4
        return self.cast(dtype, chosen) if narrow else chosen

    def own_helper(self, name: str, *dtypes: DType) -> tuple[str, str] | None:
        """Return name and text of a language-specific replacement for a helper."""
        return self.own_helpers.get("_".join((name, *(d.name for d in dtypes))))

    # Vectors. Languages without vectors keep these defaults.
    def vector_type(self, type: Type) -> str:
        """Return the type of several lanes."""
        self.refuse(f"values of {type}")

    def vector(self, type: Type, lanes: Sequence[Expression]) -> Expression:
        """Return a vector constructed from scalars."""
        self.refuse(f"values of {type}")

    def lane(self, value: Expression, type: Type, lane: int) -> Expression:
        """Return a lane of a named vector."""
        self.refuse(f"values of {type}")

    def vector_operation(
        self, operation: Operation, operands: Sequence[Expression], helpers: Helpers
    ) -> Expression | None:
        """Return an operation on whole vectors, or None to do it lane by lane."""
        return None

    def vector_load(
        self, name: str, memory: Memory, index: Expression, type: Type, aligned: bool
    ) -> Expression:
        """Return consecutive elements of a memory, given by name, as a value."""
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
        """Return the statement that stores consecutive elements."""
        stored, place = in_memory(type), infix("+", SUM, Expression(name), index)
        if not aligned:
            return self.scatter(memory, type, place, value)
        value = value if stored is type else self.bytes_of(value, stored, type)
        return f"{self.pointed(memory, self.type(stored), place).text} = {value.text};"

    def pointed(self, memory: Memory, type: str, place: Expression) -> Expression:
        """Return the element at an address of a memory, as a type of the language."""
        if memory.space not in self.spaces:
            self.refuse(f"pointers to {memory.space} memory")
        return prefix("*", prefix(f"({f'{self.spaces[memory.space]} {type} *'.lstrip()})", place))

    def gather(self, memory: Memory, type: Type, place: Expression) -> Expression:
        """Return the elements from an address aligned for a single element."""
        self.refuse(f"loads of {type}")

    def scatter(self, memory: Memory, type: Type, place: Expression, value: Expression) -> str:
        """Return the statement that stores from an address aligned for a single element."""
        self.refuse(f"stores of {type}")

    def bools_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return a vector of bools converted from bytes in memory."""
        self.refuse(f"loads of {type}")

    def bytes_of(self, value: Expression, stored: Type, type: Type) -> Expression:
        """Return the bytes, 0 and 1, of a vector of bools."""
        self.refuse(f"stores of {type}")

    # Statements and declarations.
    def parameter(self, parameter: Parameter, name: str) -> str:
        """Return the declaration of a kernel parameter: a number, or a pointer to memory."""
        if parameter.memory is None:
            return f"{self.storage(parameter.declared.dtype)} {name}"
        # Read-only memory is never written, as restrict promises.
        restrict = "" if parameter.memory.writable else f"{self.restrict} "
        return self.pointer(parameter.memory, f"{restrict}{name}")

    def pointer(self, memory: Memory, name: str) -> str:
        """Return the declaration of a pointer to memory."""
        const = "" if memory.writable else "const "
        type = self.storage(memory.type.dtype)
        return f"{self.spaces.get(memory.space, '')} {const}{type} *{name}".lstrip()

    def declare(self, type: Type, name: str, value: Expression | None = None) -> str:
        """Return the declaration of a variable."""
        return f"{self.type(type)} {name}" + (f" = {value.text};" if value is not None else ";")

    def keep(self, type: Type, name: str, value: Expression) -> str:
        """Return the statement that defines a constant with a value."""
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
        """Return the definition of a scalar function.

        Its lines may change the first parameter, unless they take it as a ``constant``.
        """
        given = ", ".join(f"{self.type(Type(dtype))} {own}" for dtype, own in parameters)
        head = f"{self.function_prefix} {self.type(Type(result))} {name}({given}) {{"
        return "\n".join((head, *(f"  {line}" for line in lines), "}"))

    def unroll(self, times: int) -> str:
        """Return the pragma before a loop to unroll, or nothing."""
        return f"#pragma unroll {times}"

    def declare_memory(self, memory: Memory, name: str) -> str:
        """Return the declaration of shared or private memory."""
        return f"{self.storage(memory.type.dtype)} {name}[{memory.size}];"

    def declare_memories(self, kernel: Kernel, names: Sequence[str]) -> Sequence[str]:
        """Return the declarations of all memories of a kernel, under these names."""
        pairs = zip(kernel.memories, names, strict=True)
        return [self.declare_memory(memory, name) for memory, name in pairs]

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return the whole text; ``names`` are the parameters' names and ``body`` is indented."""
        raise NotImplementedError

    # Positions and synchronization.
    def position(self, name: str, axis: int, dtype: DType) -> Expression:
        """Return a unit's position: an operation's name, such as cube_position, and its axis."""
        if name not in self.positions:
            self.refuse(name)
        return self.cast(dtype, Expression(self.positions[name].format("xyz"[axis], axis)))

    def barrier(self, scope: str, name: int, count: int) -> str:
        """Return the statement that synchronizes the units of a scope."""
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
        """Return an atomic update of the element at ``place``; its value is the old one."""
        self.refuse("atomics")

    def ordered(self, memory: Memory, place: Expression) -> Expression:
        """Return the element for a load or store visible to other units, between fences.

        The compiler may neither move the access nor keep the element in a register.
        """
        type = self.storage(memory.type.dtype)
        return self.pointed(memory, f"volatile {type}", prefix("&", place))

    def prefetch(self, memory: Memory, place: Expression) -> str:
        """Return the statement that prefetches a cache line, or nothing."""
        return ""

    def shuffle(self, kind: str, dtype: DType, value: Expression, lane: Expression) -> Expression:
        """Return a value from another unit of the plane: kind "index", "xor", "up" or "down".

        For "up" and "down", units without a source keep their own value.
        """
        self.refuse("planes")

    def plane(
        self, operation: Operation, operands: Sequence[Expression], plane: int
    ) -> Expression | None:
        """Return an operation of a plane, or None to build it from shuffles."""
        return None

    def printed(self, text: str, values: Sequence[Values]) -> str:
        """Return the statement that prints a text; each ``{}`` is the lanes of a value."""
        if self.printf is None:
            self.refuse("prints")
        long, *integers = self.printf
        forms, arguments = [], []
        for lanes in values:
            found = []
            for value, dtype in lanes:
                if dtype.kind == "float":
                    wide = float64 if self.computes(float64) else float32
                    found.append("%.9g")
                    arguments.append(self.cast(wide, value).text)
                else:
                    unsigned = dtype.kind == "uint"
                    found.append(f"%{long}{'u' if unsigned else 'd'}")
                    arguments.append(f"({integers[unsigned]}){value.at(UNARY)}")
            forms.append(found[0] if len(found) == 1 else f"[{' '.join(found)}]")
        said = text.replace("%", "%%").format(*forms)
        for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
            said = said.replace(character, escaped)
        given = ", ".join([f'"{said}\\n"', *arguments])
        return f"printf({given});"

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for an unsupported construct of the language."""
        raise CompileError(f"{self.name} has no {what}; choose a variant of the kernel without it")
