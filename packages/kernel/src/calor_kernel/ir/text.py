"""A kernel as readable text: one operation per line, regions indented."""

from __future__ import annotations

from typing import Any

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value


def kernel_text(kernel: Kernel) -> str:
    """Return the readable text of a kernel; it is deterministic."""
    return _Writer().kernel(kernel)


class _Writer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []

    def name(self, value: Value) -> str:
        found = self.names.get(value)
        if found is None:
            found = self.names[value] = f"%{value.hint}{len(self.names)}"
        return found

    def named(self, values: tuple[Value, ...]) -> str:
        return ", ".join(self.name(v) for v in values)

    def kernel(self, kernel: Kernel) -> str:
        declared = []
        for parameter in kernel.parameters:
            if parameter.value is not None:
                self.names[parameter.value] = f"%{parameter.name}"
            declared.append(f"{parameter.name}: {parameter.declared}")
        cube = "x".join(map(str, kernel.cube))
        notes = "".join(f" {k}={v}" for k, v in kernel.attributes.items())
        self.lines.append(f"kernel {kernel.name}({', '.join(declared)}) cube={cube}{notes}:")
        for memory in kernel.memories:
            self.lines.append(f"  {memory.space} {memory.name}: {memory.type}[{memory.size}]")
        self.block(kernel.body, "  ")
        return "\n".join(self.lines) + "\n"

    def block(self, block: Block, indent: str) -> None:
        for operation in block.operations:
            self.operation(operation, indent)

    def operation(self, operation: Operation, indent: str) -> None:
        head = f"{self.named(operation.results)} = " if operation.results else ""
        words = [operation.name]
        if operation.memory is not None:
            words.append(operation.memory.name)
        words += [self.name(v) for v in operation.operands]
        words += [f"{k}={_attribute(v)}" for k, v in operation.attributes.items() if _said(v)]
        types = ", ".join(str(v.type) for v in operation.results)
        self.lines.append(f"{indent}{head}{' '.join(words)}{' : ' + types if types else ''}")
        for region in operation.regions:
            inner = indent + "  "
            if region.arguments:
                self.lines.append(f"{indent}  with {self.named(region.arguments)}")
            self.block(region, inner)
            if region.yields:
                self.lines.append(f"{inner}yield {self.named(region.yields)}")
            if operation.name in ("if", "while") and region is not operation.regions[-1]:
                self.lines.append(f"{indent}{'else' if operation.name == 'if' else 'do'}")


def _said(value: Any) -> bool:
    return not (value is None or value is False or value == "" or value == ())


def _attribute(value: Any) -> str:
    return getattr(value, "name", None) or str(value).replace(" ", "")
