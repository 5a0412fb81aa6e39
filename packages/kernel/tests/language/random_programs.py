"""Random programs of whole numbers, as text: what people would not think of writing."""

from __future__ import annotations

import random
from collections.abc import Iterator

HEAD = """\
from calor_kernel.language import helper


@helper
def bend(r, place, v):
    if v % 3 == 1:
        r[place] = r[place] + v
        w = v
    else:
        w = r[place] - v
    return w % 50

"""
NAMES = ("a", "b", "c", "n")


def programs(seed: int, count: int) -> str:
    """Return a module with functions ``p0(y, x, n, *, make)`` and more."""
    return HEAD + "\n\n".join(_Program(random.Random(f"{seed} {i}"), i).text for i in range(count))


class _Program:
    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng = rng
        self.fresh = 0
        lines = ["r = make((3,))", "l = [1, n]", "t = (n, 2)", "d = {'k': 3}", "f = n > 2"]
        for name in "abc":
            lines.append(f"{name} = {rng.choice(['0', '2', 'n', 'n + 1', 'x[1]'])}")
        lines += self.block(0)
        for place, value in enumerate([*"abc", "r[0]", "r[1]", "r[2]", "l[0]", "l[1]", "t[0]"]):
            lines.append(f"y[{place}] = {value}")
        lines.append("y[9] = d['k'] + (1 if f else 0)")
        body = "".join(f"    {line}\n" for line in lines)
        self.text = f"def p{number}(y, x, n, *, make):\n{body}"

    def one(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def value(self, depth: int = 0) -> str:
        """A whole number between −97 and 97 and a little over."""
        simple = [*NAMES, "r[0]", "r[2]", "l[0]", "t[1]", "d['k']", str(self.rng.randint(-3, 5))]
        if depth > 1 or self.rng.random() < 0.3:
            return self.rng.choice(simple)
        a, b = self.value(depth + 1), self.value(depth + 1)
        return self.one(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b}) % 97",
            f"({a} // {self.one('2', '3', '-3', '4')})",
            f"({a} % {self.one('2', '5', '-5', '8')})",
            f"({a} if {self.condition(depth + 1)} else {b})",
            f"min({a}, {b})",
            f"max({a}, {b}, 1)",
            f"abs({a})",
            f"x[({a}) % 8]",
            f"sum([{a}, {b}])",
        )

    def condition(self, depth: int = 0) -> str:
        a, b = self.value(depth + 1), self.value(depth + 1)
        simple = f"{a} {self.one('<', '<=', '==', '!=', '>')} {b}"
        if depth > 1 or self.rng.random() < 0.5:
            return self.one(simple, simple, "f")
        c = self.condition(depth + 1)
        return self.one(
            f"({simple} and {c})", f"({simple} or {c})", f"(not {simple})", f"(-9 < {a} < {b})"
        )

    def block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 4 if depth else 6)):
            lines += self.statement(depth)
        return lines

    def inside(self, depth: int) -> Iterator[str]:
        return (f"    {line}" for line in self.block(depth + 1))

    def statement(self, depth: int) -> list[str]:
        kinds = ["assign", "assign", "more", "element", "swap", "call", "flag"]
        if depth < 3:
            kinds += ["if", "if", "for", "for", "unrolled", "while"]
        kind = self.rng.choice(kinds)
        target = self.one(*"abc")
        if kind == "assign":
            return [f"{target} = {self.value()}"]
        if kind == "more":
            return [f"{target} {self.one('+=', '-=')} {self.value()}", f"{target} %= 97"]
        if kind == "element":
            place = self.one("r[0]", "r[1]", "r[2]", "l[0]", "l[1]", "d['k']")
            return [f"{place} = {self.value()}"]
        if kind == "swap":
            return [self.one("a, b = b, a", "a, c = c, a + 1", "t = (t[1], a)", "c, b = t")]
        if kind == "call":
            return [f"{target} = bend(r, {self.rng.randint(0, 2)}, {self.value()} % 97)"]
        if kind == "flag":
            return [f"f = {self.condition()}"]
        if kind == "if":
            lines = [f"if {self.condition()}:", *self.inside(depth)]
            if self.rng.random() < 0.4:
                lines += [f"elif {self.condition()}:", *self.inside(depth)]
            if self.rng.random() < 0.6:
                lines += ["else:", *self.inside(depth)]
            return lines
        self.fresh += 1
        i = f"i{self.fresh}"
        if kind == "unrolled":
            return [f"for {i} in range(2):", f"    {target} = {target} + {i}", *self.inside(depth)]
        if kind == "for":
            bounds = self.one("n", "1, n", "n % 3", "n, 0, -1", f"{target} % 4")
            return [f"for {i} in range({bounds}):", f"    {target} = {i}", *self.inside(depth)]
        start = self.one("n", "n % 3", "2", f"{target} % 4")
        return [f"{i} = {start}", f"while {i} > 0:", *self.inside(depth), f"    {i} = {i} - 1"]
