"""The native text that frees memory when its object dies.

Requirements: it does the same as the Python method, which it calls for unusual objects. An object
that was never filled frees nothing.
"""

from __future__ import annotations

from string import Template
from typing import Final

from calor_cpu.calls.offsets import TYPE, slot

_TEXT: Final = Template("""
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyList_Append(ptr, ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@pools = external global i8
@plainly = external global i8

define ptr @call(ptr %self, ptr %nothing) {
entry:
  %given = alloca ptr
  %handle.at = getelementptr i8, ptr %self, i64 $handle
  %idle.at = getelementptr i8, ptr %self, i64 $idle
  %nbytes.at = getelementptr i8, ptr %self, i64 $nbytes
  %pool.at = getelementptr i8, ptr %self, i64 $pool
  %handle = load ptr, ptr %handle.at
  %idle = load ptr, ptr %idle.at
  %nbytes = load ptr, ptr %nbytes.at
  %pool = load ptr, ptr %pool.at
  %empty = icmp eq ptr %handle, null
  br i1 %empty, label %none, label %full
full:
  %no.idle = icmp eq ptr %idle, null
  %no.nbytes = icmp eq ptr %nbytes, null
  %no.pool = icmp eq ptr %pool, null
  %one = or i1 %no.idle, %no.nbytes
  %any = or i1 %one, %no.pool
  br i1 %any, label %plainly, label %known
known:
  %type.at = getelementptr i8, ptr %pool, i64 $type
  %type = load ptr, ptr %type.at
  %usual = icmp eq ptr %type, @pools
  br i1 %usual, label %count, label %plainly
count:
  %used.at = getelementptr i8, ptr %pool, i64 $used
  %old = load ptr, ptr %used.at
  %counted = icmp ne ptr %old, null
  br i1 %counted, label %subtract, label %plainly
subtract:
  %used = call i64 @PyLong_AsLongLong(ptr %old)
  %bytes = call i64 @PyLong_AsLongLong(ptr %nbytes)
  %left = sub i64 %used, %bytes
  %error = call ptr @PyErr_Occurred()
  %strange = icmp ne ptr %error, null
  br i1 %strange, label %failed, label %append
append:
  %new = call ptr @PyLong_FromLongLong(i64 %left)
  %memory = icmp eq ptr %new, null
  br i1 %memory, label %failed, label %give
give:
  %status = call i32 @PyList_Append(ptr %idle, ptr %handle)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %drop, label %store
drop:
  call void @Py_DecRef(ptr %new)
  br label %failed
store:
  store ptr %new, ptr %used.at
  call void @Py_DecRef(ptr %old)
  br label %none
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
failed:
  ret ptr null
plainly:
  store ptr %self, ptr %given
  %result = call ptr @PyObject_Vectorcall(ptr @plainly, ptr %given, i64 1, ptr null)
  ret ptr %result
}
""")


def giving_text(kind: type, pools: type) -> str:
    """Return the text of the function ``call`` for buffers of a type, and pools of a type.

    Raises
    ------
    LayoutError
        If this interpreter cannot have it.
    """
    offsets = {name: slot(kind, name) for name in ("handle", "idle", "nbytes", "pool")}
    offsets |= {"used": slot(pools, "in_use"), "type": TYPE}
    return _TEXT.substitute(offsets).lstrip()
