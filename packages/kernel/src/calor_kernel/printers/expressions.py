"""C-like expressions with their precedence, so that parentheses are exactly those needed.

Wrapping integer arithmetic is computed in unsigned types, and a chain of such operations converts
once. Reads of memory are tracked, so that they never move across a write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Precedence of C's operators, the strongest last.
CHOICE, OR, AND, BIT_OR, BIT_XOR, BIT_AND = range(6)
EQUAL, ORDER, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(6, 13)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text and the precedence of its outermost operator.

    ``reads``: whether it reads writable memory; ``loads``: any memory. ``bare``: whether it is an
    integer literal without an explicit type. ``wrapping``: the same number in the unsigned type, if
    the text only converts it. ``product``: the factors of a float product that may be contracted
    into a sum. ``mask``: for bools of a vector, the comparison and the bytes of its lanes, if a
    language's comparisons are wider than its bools.
    """

    text: str
    level: int = ATOM
    reads: bool = False
    loads: bool = False
    bare: bool = False
    wrapping: Expression | None = None
    product: tuple[Expression, Expression] | None = None
    mask: tuple[Expression, int] | None = None

    def at(self, level: int) -> str:
        """Return the text as an operand of an operator with this precedence."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def is_atom(self) -> bool:
        """Whether the text is free to repeat."""
        return self.bare or (self.level == ATOM and self.text.isidentifier())


def reading(made: Expression, *parts: Expression) -> Expression:
    """Return an expression that reads memory if it or one of its parts does."""
    if made.reads and made.loads:
        return made
    reads = made.reads or any(part.reads for part in parts)
    loads = made.loads or any(part.loads for part in parts)
    if (reads, loads) == (made.reads, made.loads):
        return made
    return replace(made, reads=reads, loads=loads)


def infix(operator: str, level: int, a: Expression, b: Expression) -> Expression:
    """Return ``a operator b``, with parentheses for correctness or readability."""
    if level in (SUM, PRODUCT):
        left, right = a.at(level), b.at(level + 1)
    elif level in (EQUAL, ORDER):
        left, right = a.at(SUM), b.at(SUM)
    else:
        # Few readers know the relative precedence of these; chains of a single operator are clear.
        need = EQUAL if level in (AND, OR) else UNARY
        chained = a.level == level and level != SHIFT
        left, right = a.text if chained else a.at(need), b.at(need)
    return reading(Expression(f"{left} {operator} {right}", level), a, b)


def prefix(operator: str, a: Expression) -> Expression:
    """Return ``operator a``."""
    text = a.at(UNARY)
    space = "" if not text.startswith(operator[-1]) else " "
    return reading(Expression(f"{operator}{space}{text}", UNARY), a)


def call(function: str, *arguments: Expression) -> Expression:
    """Return ``function(arguments)``."""
    inner = ", ".join(a.text for a in arguments)
    return reading(Expression(f"{function}({inner})"), *arguments)


def choice(condition: Expression, a: Expression, b: Expression) -> Expression:
    """Return ``condition ? a : b``."""
    text = f"{condition.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE)}"
    return reading(Expression(text, CHOICE), condition, a, b)
