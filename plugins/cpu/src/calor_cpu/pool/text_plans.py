"""The native text of a plan's run, and of the built-in function that Python calls.

Requirements: a short plan costs some ten nanoseconds, so it stores addresses and runs records
without access to Python. A long plan releases the interpreter's lock, and checks between records
for pending signals. A run that cannot continue returns the reason, and Python decides.
"""

from __future__ import annotations

from typing import Final

RUN: Final = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()

; Make the plan this thread's, or say why it cannot be.
define internal i64 @acquire(ptr %plan) {
entry:
  %parallel.at = getelementptr i8, ptr %plan, i64 $plan_parallel
  %parallel = load i32, ptr %parallel.at
  %alone = icmp eq i32 %parallel, 0
  br i1 %alone, label %try, label %workers
workers:
  %pool.from = getelementptr i8, ptr %plan, i64 $plan_pool
  %pool = load ptr, ptr %pool.from
  %threads.at = getelementptr i8, ptr %pool, i64 $pool_threads
  %started.at = getelementptr i8, ptr %pool, i64 $pool_started
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %started = load atomic i32, ptr %started.at monotonic, align 4
  %several = icmp sgt i64 %threads, 1
  %nobody = icmp eq i32 %started, 0
  %wanted = and i1 %several, %nobody
  br i1 %wanted, label %start, label %try
start:
  ret i64 $START
try:
  %busy.at = getelementptr i8, ptr %plan, i64 $plan_busy
  %exchange = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %exchange, 1
  %status = select i1 %mine, i64 $DONE, i64 $BUSY
  ret i64 %status
}

; Let signal handlers run. Returns the thread's new state, or null when a handler raised; then the
; interpreter's lock is held.
define internal ptr @signals(ptr %thread) {
entry:
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = call i32 @PyErr_CheckSignals()
  %bad = icmp ne i32 %raised, 0
  br i1 %bad, label %leave, label %on
leave:
  ret ptr null
on:
  %again = call ptr @PyEval_SaveThread()
  ret ptr %again
}

; The end of a loop's launches: shift the addresses and return the first launch's number, or the
; number after the last launch.
define internal i64 @again(ptr %loop, i64 %after) {
entry:
  %left.at = getelementptr i8, ptr %loop, i64 $loop_left
  %times.from = getelementptr i8, ptr %loop, i64 $loop_times
  %back.from = getelementptr i8, ptr %loop, i64 $loop_back
  %shifts.from = getelementptr i8, ptr %loop, i64 $loop_shifts
  %count.from = getelementptr i8, ptr %loop, i64 $loop_shift_count
  %left = load i64, ptr %left.at
  %less = sub i64 %left, 1
  store i64 %less, ptr %left.at
  %last = icmp slt i64 %less, 1
  br i1 %last, label %done, label %more
done:
  ret i64 %after
more:
  %times = load i64, ptr %times.from
  %back = load i64, ptr %back.from
  %shifts = load ptr, ptr %shifts.from
  %count = load i64, ptr %count.from
  %ran = sub i64 %times, %left
  %low = and i64 %ran, 1
  %is.odd = icmp ne i64 %low, 0
  br label %next
next:
  %s = phi i64 [ 0, %more ], [ %s.next, %shift ]
  %end = icmp eq i64 %s, %count
  br i1 %end, label %out, label %shift
shift:
  %byte = mul i64 %s, $sizeof_shift
  %at = getelementptr i8, ptr %shifts, i64 %byte
  %slot.from = getelementptr i8, ptr %at, i64 $shift_slot
  %even.from = getelementptr i8, ptr %at, i64 $shift_even
  %odd.from = getelementptr i8, ptr %at, i64 $shift_odd
  %slot = load ptr, ptr %slot.from
  %even = load i64, ptr %even.from
  %odd = load i64, ptr %odd.from
  %by = select i1 %is.odd, i64 %odd, i64 %even
  %old = load i64, ptr %slot
  %new = add i64 %old, %by
  store i64 %new, ptr %slot
  %s.next = add i64 %s, 1
  br label %next
out:
  %first = sub i64 %after, %back
  ret i64 %first
}

; Run an acquired plan and give it back. `times`, unless null, takes the clock before the first
; record and after each.
define internal i64 @go(ptr %plan, ptr %bases, ptr %times) {
entry:
  %pool.from = getelementptr i8, ptr %plan, i64 $plan_pool
  %moves.from = getelementptr i8, ptr %plan, i64 $plan_relocations
  %move.count.from = getelementptr i8, ptr %plan, i64 $plan_relocation_count
  %records.from = getelementptr i8, ptr %plan, i64 $plan_records
  %loops.from = getelementptr i8, ptr %plan, i64 $plan_loops
  %loop.count.from = getelementptr i8, ptr %plan, i64 $plan_loop_count
  %count.from = getelementptr i8, ptr %plan, i64 $plan_count
  %release.from = getelementptr i8, ptr %plan, i64 $plan_release
  %error.at = getelementptr i8, ptr %plan, i64 $plan_error
  %pool = load ptr, ptr %pool.from
  %moves = load ptr, ptr %moves.from
  %move.count = load i64, ptr %move.count.from
  %records = load ptr, ptr %records.from
  %loops = load ptr, ptr %loops.from
  %loop.count = load i64, ptr %loop.count.from
  %count = load i64, ptr %count.from
  %release = load i32, ptr %release.from
  %hold.at = getelementptr i8, ptr %pool, i64 $pool_hold
  %hold = load atomic i32, ptr %hold.at monotonic, align 4
  %wants = icmp ne i32 %release, 0
  %may = icmp eq i32 %hold, 0
  %released = and i1 %wants, %may
  %timed = icmp ne ptr %times, null
  %cancel.at = getelementptr i8, ptr %pool, i64 $pool_cancel
  %running.at = getelementptr i8, ptr %pool, i64 $pool_running
  store atomic i32 0, ptr %error.at monotonic, align 4
  br label %move.next

move.next:
  %m = phi i64 [ 0, %entry ], [ %m.next, %move ]
  %moved = icmp eq i64 %m, %move.count
  br i1 %moved, label %loop.next, label %move
move:
  %entry.byte = mul i64 %m, $sizeof_move
  %entry.at = getelementptr i8, ptr %moves, i64 %entry.byte
  %slot.from = getelementptr i8, ptr %entry.at, i64 $move_slot
  %number.from = getelementptr i8, ptr %entry.at, i64 $move_number
  %offset.from = getelementptr i8, ptr %entry.at, i64 $move_offset
  %slot = load ptr, ptr %slot.from
  %number = load i64, ptr %number.from
  %offset = load i64, ptr %offset.from
  %base.from = getelementptr i64, ptr %bases, i64 %number
  %base = load i64, ptr %base.from
  %address = add i64 %base, %offset
  store i64 %address, ptr %slot
  %m.next = add i64 %m, 1
  br label %move.next

; The last run may have stopped within a loop.
loop.next:
  %l = phi i64 [ 0, %move.next ], [ %l.next, %loop ]
  %begun = icmp eq i64 %l, %loop.count
  br i1 %begun, label %ready, label %loop
loop:
  %loop.byte = mul i64 %l, $sizeof_loop
  %loop.at = getelementptr i8, ptr %loops, i64 %loop.byte
  %left.at = getelementptr i8, ptr %loop.at, i64 $loop_left
  %times.from = getelementptr i8, ptr %loop.at, i64 $loop_times
  %times.all = load i64, ptr %times.from
  store i64 %times.all, ptr %left.at
  %l.next = add i64 %l, 1
  br label %loop.next

ready:
  br i1 %released, label %let.go, label %clocked
let.go:
  %more.running = atomicrmw add ptr %running.at, i32 1 seq_cst
  %saved = call ptr @PyEval_SaveThread()
  br label %clocked
clocked:
  %thread.first = phi ptr [ null, %ready ], [ %saved, %let.go ]
  ; Signals are asked for between records; a single one needs no clock.
  %last = sub i64 %count, 1
  %several = icmp sgt i64 %last, 0
  %asks = and i1 %released, %several
  %watch = or i1 %asks, %timed
  br i1 %watch, label %start.clock, label %begin
start.clock:
  %start.read = call i64 @now()
  br i1 %timed, label %start.note, label %begin
start.note:
  store i64 %start.read, ptr %times
  br label %begin
begin:
  %start = phi i64 [ 0, %clocked ], [ %start.read, %start.clock ], [ %start.read, %start.note ]
  br label %next

next:
  %i = phi i64 [ 0, %begin ], [ %i.next, %step ]
  %thread = phi ptr [ %thread.first, %begin ], [ %thread.on, %step ]
  %asked = phi i64 [ %start, %begin ], [ %asked.on, %step ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %finish, label %run
run:
  %record.byte = mul i64 %i, $sizeof_record
  %record = getelementptr i8, ptr %records, i64 %record.byte
  call void @launch(ptr %pool, ptr %record)
  %i.after = add i64 %i, 1
  %error = load atomic i32, ptr %error.at monotonic, align 4
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %fail, label %sound
sound:
  %cancel = load atomic i32, ptr %cancel.at monotonic, align 4
  %cancelled = icmp ne i32 %cancel, 0
  br i1 %cancelled, label %finish, label %willing
willing:
  %between = icmp slt i64 %i, %last
  %asks.now = and i1 %asks, %between
  %look.now = or i1 %asks.now, %timed
  br i1 %look.now, label %look, label %on
look:
  %time = call i64 @now()
  br i1 %timed, label %note, label %noted
note:
  %time.at = getelementptr i64, ptr %times, i64 %i.after
  store i64 %time, ptr %time.at
  br label %noted
noted:
  %spent = sub i64 %time, %asked
  %long = icmp sgt i64 %spent, $signals_ns
  %due = and i1 %long, %asks.now
  br i1 %due, label %signal, label %on
signal:
  %thread.new = call ptr @signals(ptr %thread)
  %raised = icmp eq ptr %thread.new, null
  br i1 %raised, label %finish, label %on
on:
  %thread.on = phi ptr [ %thread, %willing ], [ %thread, %noted ], [ %thread.new, %signal ]
  %asked.on = phi i64 [ %asked, %willing ], [ %asked, %noted ], [ %time, %signal ]
  %ends.from = getelementptr i8, ptr %record, i64 $record_loop
  %ends = load ptr, ptr %ends.from
  %plain = icmp eq ptr %ends, null
  br i1 %plain, label %step, label %repeat
repeat:
  %i.again = call i64 @again(ptr %ends, i64 %i.after)
  br label %step
step:
  %i.next = phi i64 [ %i.after, %on ], [ %i.again, %repeat ]
  br label %next

fail:
  ; (code, record's number, FAILED)
  %code = zext i32 %error to i64
  %code.high = shl i64 %code, 32
  %i.high = shl i64 %i, 8
  %i.low = and i64 %i.high, 4294967040
  %where = or i64 %code.high, %i.low
  %failure = or i64 %where, $FAILED
  br label %finish

finish:
  %status = phi i64 [ $DONE, %next ], [ %failure, %fail ], [ $CANCELLED, %sound ],
                    [ $SIGNAL, %signal ]
  %thread.last = phi ptr [ %thread, %next ], [ %thread, %fail ], [ %thread, %sound ],
                         [ null, %signal ]
  %busy.at = getelementptr i8, ptr %plan, i64 $plan_busy
  store atomic i32 0, ptr %busy.at release, align 4
  br i1 %released, label %leave, label %out
leave:
  ; From here on the pool may be closed: this is the last look at it.
  %less.running = atomicrmw sub ptr %running.at, i32 1 seq_cst
  %held = icmp eq ptr %thread.last, null
  br i1 %held, label %out, label %take.back
take.back:
  call void @PyEval_RestoreThread(ptr %thread.last)
  br label %out
out:
  ret i64 %status
}

; Run a plan; the interpreter's lock is held by the caller.
define i64 @run(ptr %plan, ptr %bases, ptr %times) {
entry:
  %taken = call i64 @acquire(ptr %plan)
  %good = icmp eq i64 %taken, $DONE
  br i1 %good, label %on, label %out
on:
  %status = call i64 @go(ptr %plan, ptr %bases, ptr %times)
  ret i64 %status
out:
  ret i64 %taken
}
"""

CALL: Final = """
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8
@resume.format = private constant [4 x i8] c"OLN\\00"

; What Python calls (METH_FASTCALL): `self` is the plan's address, the arguments are the bases.
define ptr @call(ptr %self, ptr %arguments, i64 %given) {
entry:
  %plan = call ptr @PyLong_AsVoidPtr(ptr %self)
  %slots.from = getelementptr i8, ptr %plan, i64 $plan_slots
  %bases.from = getelementptr i8, ptr %plan, i64 $plan_bases
  %slots = load i64, ptr %slots.from
  %bases = load ptr, ptr %bases.from
  %right = icmp eq i64 %given, %slots
  br i1 %right, label %acquire, label %trouble
acquire:
  ; The bases are the plan's memory, so they are written by who has the plan.
  %taken = call i64 @acquire(ptr %plan)
  %good = icmp eq i64 %taken, $DONE
  br i1 %good, label %read, label %trouble

read:
  %i = phi i64 [ 0, %acquire ], [ %i.next, %store ]
  %end = icmp eq i64 %i, %slots
  br i1 %end, label %go, label %convert
convert:
  %object.from = getelementptr ptr, ptr %arguments, i64 %i
  %object = load ptr, ptr %object.from
  %base = call ptr @PyLong_AsVoidPtr(ptr %object)
  %zero = icmp eq ptr %base, null
  br i1 %zero, label %doubt, label %store
doubt:
  %error = call ptr @PyErr_Occurred()
  %sound = icmp eq ptr %error, null
  br i1 %sound, label %store, label %refuse
store:
  %base.at = getelementptr ptr, ptr %bases, i64 %i
  store ptr %base, ptr %base.at
  %i.next = add i64 %i, 1
  br label %read
refuse:
  %busy.at = getelementptr i8, ptr %plan, i64 $plan_busy
  store atomic i32 0, ptr %busy.at release, align 4
  ret ptr null

go:
  %status = call i64 @go(ptr %plan, ptr %bases, ptr null)
  %done = icmp eq i64 %status, $DONE
  br i1 %done, label %none, label %failed
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
failed:
  %raised = icmp eq i64 %status, $SIGNAL
  br i1 %raised, label %raise, label %trouble
raise:
  ret ptr null

trouble:
  %why = phi i64 [ $COUNT, %entry ], [ %taken, %acquire ], [ %status, %failed ]
  %result = call ptr @trouble(ptr %plan, i64 %why, ptr %arguments, i64 %given)
  ret ptr %result
}

; Call resume(owner, status, arguments). "N" hands the tuple over.
define internal ptr @trouble(ptr %plan, i64 %status, ptr %arguments, i64 %given) {
entry:
  %resume.from = getelementptr i8, ptr %plan, i64 $plan_resume
  %owner.from = getelementptr i8, ptr %plan, i64 $plan_owner
  %resume = load ptr, ptr %resume.from
  %owner = load ptr, ptr %owner.from
  %tuple = call ptr @PyTuple_New(i64 %given)
  %full = icmp eq ptr %tuple, null
  br i1 %full, label %refuse, label %next
refuse:
  ret ptr null
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %copy ]
  %end = icmp eq i64 %i, %given
  br i1 %end, label %call, label %copy
copy:
  %from = getelementptr ptr, ptr %arguments, i64 %i
  %object = load ptr, ptr %from
  call void @Py_IncRef(ptr %object)
  %stored = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %object)
  %i.next = add i64 %i, 1
  br label %next
call:
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %resume, ptr @resume.format,
                                                            ptr %owner, i64 %status, ptr %tuple)
  ret ptr %result
}
"""
