"""The native text of a bound call, generated from its description.

Requirements: calls with the same structure have equal texts, so one text is compiled for all; their
differences are words in a block beside it. If an argument does not fit the description, the call
passes its arguments on and has changed nothing. A call holds references to everything it reads,
because another thread or a finalizer may drop it meanwhile; the interpreter's functions count them.
"""

from __future__ import annotations

import _thread
from collections.abc import Sequence
from typing import Any, Final

from calor.backends.calls import Made, Operand
from calor_cpu.calls.offsets import TYPE, LayoutError, slot
from calor_cpu.pool.structures import Status
from calor_kernel.device.calls import NativeCall, Scratch

# Functions of the interpreter, with their return and parameter types.
FUNCTIONS: Final = {
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyErr_Clear": "void ()",
    "PyErr_Occurred": "ptr ()",
    "PyList_Append": "i32 (ptr, ptr)",
    "PyList_GetItem": "ptr (ptr, i64)",
    "PyList_SetSlice": "i32 (ptr, i64, i64, ptr)",
    "PyList_Size": "i64 (ptr)",
    "PyLong_AsLongLong": "i64 (ptr)",
    "PyLong_AsVoidPtr": "ptr (ptr)",
    "PyLong_FromLongLong": "ptr (i64)",
    "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_IsTrue": "i32 (ptr)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyThreadState_Get": "ptr ()",
    "PyThreadState_GetID": "i64 (ptr)",
    "PyType_GenericAlloc": "ptr (ptr, i64)",
    "Py_DecRef": "void (ptr)",
    "Py_IncRef": "void (ptr)",
}
# A number that no thread has.
_NOBODY: Final = 2**64 - 1


class Writer:
    """Writes ``text``, and collects the ``words`` of its block and the objects ``kept`` in it.

    ``run`` is the address of the pool's function that runs a plan, ``plan`` that of the plan.
    """

    def __init__(self, call: NativeCall, run: int, plan: int) -> None:
        self.call = call
        self.words: list[int] = []
        self.kept: list[Any] = []
        self._lines: list[str] = []
        self._number = 0
        self._bases = len(call.slots) + len(call.fixed) + 1
        otherwise = self._object(call.otherwise)
        self._lists = [self._object(scratch.idle) for scratch in call.scratch]
        self._require(f"icmp eq i64 %given, {call.arguments}")
        self._require("icmp eq ptr %names, null")
        self._guards()
        for number, operand in enumerate(call.operands):
            self._operand(number, operand)
        self._allocate()
        address = self._take(call)
        status = self._run(address, run, plan)
        self.text = self._whole(otherwise, status)

    # Elements of text.
    def _value(self, text: str) -> str:
        self._number += 1
        self._lines.append(f"  %v{self._number} = {text}")
        return f"%v{self._number}"

    def _do(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _branch(self, condition: str, otherwise: str) -> None:
        self._number += 1
        self._do(f"br i1 {condition}, label %on{self._number}, label %{otherwise}")
        self._lines.append(f"on{self._number}:")

    def _require(self, comparison: str) -> None:
        self._branch(self._value(comparison), "miss")

    def _call(self, name: str, *arguments: str) -> str:
        result = FUNCTIONS[name].partition(" ")[0]
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self._do(text)
            return ""
        return self._value(text)

    def _load(self, base: str, offset: int, kind: str = "ptr") -> str:
        at = self._value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self._value(f"load {kind}, ptr {at}")

    def _store(self, value: str, base: str, offset: int) -> None:
        at = self._value(f"getelementptr i8, ptr {base}, i64 {offset}")
        self._do(f"store {value}, ptr {at}")

    def _word(self, word: int) -> int:
        self.words.append(word)
        return 8 * (len(self.words) - 1)

    def _object(self, kept: Any) -> str:
        """Return an object that the block keeps alive as long as the call exists."""
        self.kept.append(kept)
        return self._load("%block", self._word(id(kept)))

    # Preconditions.
    def _guards(self) -> None:
        for owner, name, expected in self.call.same:
            self._same(self._object(owner), slot(type(owner), name), expected)
        owner, empty, same = self.call.thread
        attributes = self._attributes(owner)
        value = self._attribute(attributes, empty)
        truth = self._call("PyObject_IsTrue", f"ptr {value}")
        self._require(f"icmp eq i32 {truth}, 0")
        for name, expected in same.items():
            value = self._attribute(attributes, name)
            self._require(f"icmp eq ptr {value}, {self._object(expected)}")

    def _same(self, base: str, offset: int, expected: Any) -> None:
        found = self._load(base, offset)
        self._require(f"icmp eq ptr {found}, {self._object(expected)}")

    def _attributes(self, owner: Any) -> str:
        """Return the dictionary of this thread, looked up if another thread called last.

        It lives as long as the thread, whose number is never reused. That holds for the
        interpreter's own thread-local type; other types may be local to tasks within one thread.
        """
        if not isinstance(owner, _thread._local):
            raise LayoutError(f"{type(owner).__name__} is not local to threads")
        known_at, found_at = self._word(_NOBODY), self._word(0)
        state = self._call("PyThreadState_Get")
        thread = self._call("PyThreadState_GetID", f"ptr {state}")
        known = self._load("%block", known_at, "i64")
        same = self._value(f"icmp eq i64 {thread}, {known}")
        self._do(f"br i1 {same}, label %asked, label %ask")
        self._lines.append("ask:")
        name = self._object("__dict__")
        attributes = self._call("PyObject_GetAttr", f"ptr {self._object(owner)}", f"ptr {name}")
        self._require(f"icmp ne ptr {attributes}, null")
        self._store(f"ptr {attributes}", "%block", found_at)
        self._store(f"i64 {thread}", "%block", known_at)
        self._call("Py_DecRef", f"ptr {attributes}")
        self._do("br label %asked")
        self._lines.append("asked:")
        return self._load("%block", found_at)

    def _attribute(self, attributes: str, name: str) -> str:
        key = self._object(name)
        value = self._call("PyDict_GetItemWithError", f"ptr {attributes}", f"ptr {key}")
        self._require(f"icmp ne ptr {value}, null")
        return value

    def _operand(self, number: int, operand: Operand) -> None:
        """Follow the path to a handle, hold its owner, and store the address."""
        if operand.place is None:
            here = self._object(operand.given)
        else:
            here = self._load("%arguments", 8 * operand.place)
        for look in operand.looks:
            kind = self._load(here, TYPE)
            right = [self._value(f"icmp eq ptr {kind}, {self._object(k)}") for k in look.kinds]
            either = right[0]
            for other in right[1:]:
                either = self._value(f"or i1 {either}, {other}")
            self._branch(either, "miss")
            offsets = {slot(k, look.then) for k in look.kinds}
            if len(offsets) != 1:
                raise LayoutError(f"{look.then} is not at one place in all of {look.kinds}")
            for name, expected in look.same.items():
                self._same(here, slot(look.kinds[0], name), expected)
            last, here = here, self._load(here, offsets.pop())
            self._require(f"icmp ne ptr {here}, null")
        self._call("Py_IncRef", f"ptr {last}")
        self._store(f"ptr {last}", "%held", 8 * number)
        address = self._call("PyLong_AsVoidPtr", f"ptr {here}")
        self._require(f"icmp ne ptr {address}, null")
        for place, read in enumerate(self.call.slots):
            if read == number:
                self._store(f"ptr {address}", "%bases", 8 * place)

    # Actions.
    def _allocate(self) -> None:
        """Create empty objects; their creation may run finalizers of any object."""
        for number, made in enumerate(self.call.made):
            new = self._call("PyType_GenericAlloc", f"ptr {self._object(made.kind)}", "i64 0")
            self._store(f"ptr {new}", "%made", 8 * number)
            self._require(f"icmp ne ptr {new}, null")

    def _take(self, call: NativeCall) -> str:
        """Take memory, link the objects, and return the memory's address."""
        pool = self._object(call.pool)
        used_at = slot(type(call.pool), "in_use")
        old = self._load(pool, used_at)
        most = self._load(pool, slot(type(call.pool), "ceiling"))
        used = self._call("PyLong_AsLongLong", f"ptr {old}")
        limit = self._call("PyLong_AsLongLong", f"ptr {most}")
        required = self._load("%block", self._word(call.required), "i64")
        wanted = self._value(f"add i64 {used}, {required}")
        # An unknown count is −1.
        self._require(f"icmp sge i64 {used}, 0")
        self._require(f"icmp sle i64 {wanted}, {limit}")
        nbytes = self._load("%block", self._word(call.nbytes), "i64")
        total = self._value(f"add i64 {used}, {nbytes}")
        new = self._call("PyLong_FromLongLong", f"i64 {total}")
        self._store(f"ptr {new}", "%spare", 0)
        self._require(f"icmp ne ptr {new}, null")
        for number, idle in enumerate(self._lists):
            self._store(f"ptr {self._pop(idle)}", "%scratch", 8 * number)
        handle = self._pop(self._object(call.idle))
        self._store(f"ptr {new}", pool, used_at)
        self._store("ptr null", "%spare", 0)
        self._call("Py_DecRef", f"ptr {old}")
        held = handle
        for number, made in enumerate(call.made):
            held = self._fill(number, made, held)
        return self._call("PyLong_AsVoidPtr", f"ptr {handle}")

    def _pop(self, idle: str) -> str:
        """Pop the last handle of a list, a nonzero integer."""
        count = self._call("PyList_Size", f"ptr {idle}")
        self._require(f"icmp sgt i64 {count}, 0")
        last = self._value(f"sub i64 {count}, 1")
        handle = self._call("PyList_GetItem", f"ptr {idle}", f"i64 {last}")
        address = self._call("PyLong_AsVoidPtr", f"ptr {handle}")
        self._require(f"icmp ne ptr {address}, null")
        self._call("Py_IncRef", f"ptr {handle}")
        self._store(f"ptr {handle}", "%spare", 8)
        ends = f"i64 {last}", f"i64 {count}"
        cut = self._call("PyList_SetSlice", f"ptr {idle}", *ends, "ptr null")
        # If the list did not release the handle, it still owns it.
        self._require(f"icmp eq i32 {cut}, 0")
        self._store("ptr null", "%spare", 8)
        return handle

    def _fill(self, number: int, made: Made, held: str) -> str:
        """Set the attributes of an object; only the outermost one remains to be dropped."""
        here = self._load("%made", 8 * number)
        for name, constant in made.attributes.items():
            value = self._object(constant)
            self._call("Py_IncRef", f"ptr {value}")
            self._store(f"ptr {value}", here, slot(made.kind, name))
        self._store(f"ptr {held}", here, slot(made.kind, made.holds))
        if number:
            self._store("ptr null", "%made", 8 * (number - 1))
        return here

    def _run(self, address: str, run: int, plan: int) -> str:
        known = len(self.call.slots)
        for place, handle in enumerate(self.call.fixed):
            if isinstance(handle, Scratch):
                number = next(i for i, s in enumerate(self.call.scratch) if s is handle)
                held = self._load("%scratch", 8 * number)
                fixed = f"ptr {self._call('PyLong_AsVoidPtr', f'ptr {held}')}"
            else:
                fixed = f"i64 {self._load('%block', self._word(handle), 'i64')}"
            self._store(fixed, "%bases", 8 * (known + place))
        self._store(f"ptr {address}", "%bases", 8 * (self._bases - 1))
        function = self._load("%block", self._word(run))
        given = self._load("%block", self._word(plan))
        return self._value(f"call i64 {function}(ptr {given}, ptr %bases, ptr null)")

    # Exits.
    def _whole(self, otherwise: str, status: str) -> str:
        """Return the function with its prologue, its exits, and its declarations."""
        call = self.call
        sizes = {"held": len(call.operands), "made": len(call.made), "spare": 2}
        entry = [
            "%block = call ptr @PyLong_AsVoidPtr(ptr %self)",
            f"%bases = alloca i64, i64 {self._bases}",
        ]
        for name, count in {**sizes, "scratch": len(call.scratch)}.items():
            entry.append(f"%{name} = alloca ptr, i64 {count}")
            for i in range(count):
                entry.append(f"%{name}.{i} = getelementptr ptr, ptr %{name}, i64 {i}")
                entry.append(f"store ptr null, ptr %{name}.{i}")
        everything = [f"%{name}.{i}" for name, count in sizes.items() for i in range(count)]
        held = everything[: sizes["held"]]
        declared = [
            f"declare {kind.partition(' ')[0]} @{name}{kind.partition(' ')[2]}"
            for name, kind in FUNCTIONS.items()
        ]
        gives = [_give(i, scratch) for i, scratch in enumerate(call.scratch)]
        return _WHOLE.format(
            declared="\n".join(declared + gives),
            entry=_lines(entry),
            body="\n".join(self._lines),
            status=status,
            given=_lines(self._given("given")),
            let_go=_lines(_dropped("done", held)),
            last=sizes["made"] - 1,
            miss=_lines([*self._given("miss"), *_dropped("miss", everything)]),
            error=_lines([*self._given("raise"), *_dropped("raise", everything)]),
            otherwise=otherwise,
            done=int(Status.DONE),
            signal=int(Status.SIGNAL),
        )

    def _given(self, end: str) -> list[str]:
        """Free scratch memory; ``%END.failed`` is the error word of kernels."""
        lines = [f"%{end}.failed.0 = or i32 0, 0"]
        for i, idle in enumerate(self._lists):
            lines += [
                f"%{end}.said.{i} = call i32 @give.{i}(ptr {idle}, ptr %scratch.{i})",
                f"%{end}.failed.{i + 1} = or i32 %{end}.failed.{i}, %{end}.said.{i}",
            ]
        return [*lines, f"%{end}.failed = or i32 %{end}.failed.{len(self._lists)}, 0"]


def _dropped(end: str, places: Sequence[str]) -> list[str]:
    """Drop the objects in variables; Py_DecRef ignores null."""
    lines = []
    for i, place in enumerate(places):
        lines.append(f"%{end}.{i} = load ptr, ptr {place}")
        lines.append(f"call void @Py_DecRef(ptr %{end}.{i})")
    return lines


def _give(number: int, scratch: Scratch) -> str:
    """Return the function that frees a piece, with zeros in the words that kernels set."""
    read = ["%said.0 = or i32 0, 0"]
    for i, offset in enumerate(scratch.words):
        read += [
            f"%at.{i} = getelementptr i8, ptr %address, i64 {offset}",
            f"%word.{i} = load i32, ptr %at.{i}",
            f"store i32 0, ptr %at.{i}",
            f"%said.{i + 1} = or i32 %said.{i}, %word.{i}",
        ]
    return _GIVE.format(number=number, read=_lines(read), said=f"%said.{len(scratch.words)}")


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


_GIVE: Final = """
define internal i32 @give.{number}(ptr %idle, ptr %place) {{
entry:
  %handle = load ptr, ptr %place
  %none = icmp eq ptr %handle, null
  br i1 %none, label %out, label %some
out:
  ret i32 0
some:
  store ptr null, ptr %place
  %address = call ptr @PyLong_AsVoidPtr(ptr %handle)
{read}  %refused = call i32 @PyList_Append(ptr %idle, ptr %handle)
  call void @Py_DecRef(ptr %handle)
  %lost = icmp ne i32 %refused, 0
  br i1 %lost, label %clear, label %back
clear:
  call void @PyErr_Clear()
  br label %back
back:
  ret i32 {said}
}}"""

# If a signal handler raised, the exception is set. After any other failure, the plain call runs
# again.
_WHOLE: Final = """{declared}

define ptr @call(ptr %self, ptr %arguments, i64 %given, ptr %names) {{
entry:
{entry}{body}
  switch i64 {status}, label %miss [i64 {done}, label %done i64 {signal}, label %raise]
done:
{given}  %sound = icmp eq i32 %given.failed, 0
  br i1 %sound, label %good, label %miss
good:
{let_go}  %result = load ptr, ptr %made.{last}
  ret ptr %result
miss:
{miss}  call void @PyErr_Clear()
  %again = call ptr @PyObject_Vectorcall(ptr {otherwise}, ptr %arguments, i64 %given, ptr %names)
  ret ptr %again
raise:
{error}  ret ptr null
}}
"""
