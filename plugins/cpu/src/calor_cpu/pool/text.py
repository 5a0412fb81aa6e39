"""The native text of the pool: workers, the hand-out of chunks, the run of a plan.

Requirements: a launch costs less than a microsecond while the workers look for work; a preempted
worker holds up one chunk and not half of the job, so chunks are handed out by a counter and the
caller takes part; a worker that comes late, even into the middle of the next launch, harms
nothing; nobody spins for long.

The hand-out: the ticket is (job, chunks left) in one word. A worker reads the ticket, then the
job's description, then takes a chunk by exchanging the ticket for one with a chunk less. The
exchange succeeds only while the job has chunks left that nobody took, hence is not finished, hence
while the description that was read is the job's: the next job cannot be described before. Chunks
that were taken are counted down in ``pending`` when they are done; zero ends the job.

Sleep: a thread announces that it sleeps, then looks once more; who makes work publishes it, then
looks for sleepers. Both orders are sequentially consistent, so one of them sees the other.
"""

from __future__ import annotations

from string import Template

from calor_cpu.pool.structures import offsets
from calor_cpu.pool.system import System

# A run without the interpreter's lock asks every 50 ms whether a signal's handler wants to run.
_SIGNALS_NS = 50_000_000
# At most so many chunks a thread: enough to level out unequal speeds, few enough to stay cheap.
_CHUNKS = 16

_WORKER = """
; A worker's life: look for work, sleep when there has been none for a while, leave when told to.
define i64 @worker(ptr %pool) {
entry:
  %ticket.at = getelementptr i8, ptr %pool, i64 $pool_ticket
  %stop.at = getelementptr i8, ptr %pool, i64 $pool_stop
  %spin.at = getelementptr i8, ptr %pool, i64 $pool_spin
  %signal.at = getelementptr i8, ptr %pool, i64 $pool_signal
  %sleepers.at = getelementptr i8, ptr %pool, i64 $pool_sleepers
  br label %idle
idle:
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i64 [ 0, %idle ], [ %turn.next, %again ]
  %ticket = load atomic i64, ptr %ticket.at acquire, align 8
  %left = trunc i64 %ticket to i32
  %work = icmp ne i32 %left, 0
  br i1 %work, label %take, label %nothing
nothing:
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %leave = icmp ne i32 %stop, 0
  br i1 %leave, label %out, label %pause
pause:
  call void @pause()
  %turn.next = add i64 %turn, 1
  %low = and i64 %turn.next, 15
  %ask = icmp eq i64 %low, 0
  br i1 %ask, label %clock, label %again
clock:
  %time = call i64 @now()
  %spent = sub i64 %time, %since
  %spin = load atomic i64, ptr %spin.at monotonic, align 8
  %enough = icmp sge i64 %spent, %spin
  br i1 %enough, label %tired, label %again
again:
  br label %look
tired:
  %signal = load atomic i32, ptr %signal.at seq_cst, align 4
  %others = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %ticket.late = load atomic i64, ptr %ticket.at seq_cst, align 8
  %left.late = trunc i64 %ticket.late to i32
  %stop.late = load atomic i32, ptr %stop.at seq_cst, align 4
  %news = or i32 %left.late, %stop.late
  %none = icmp eq i32 %news, 0
  br i1 %none, label %sleep, label %awake
sleep:
  call void @wait(ptr %pool, ptr %signal.at, i32 %signal)
  br label %awake
awake:
  %fewer = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %idle
take:
  call void @take(ptr %pool)
  br label %idle
out:
  ret i64 0
}

; Send all workers home.
define void @halt(ptr %pool) {
  %stop.at = getelementptr i8, ptr %pool, i64 $pool_stop
  %signal.at = getelementptr i8, ptr %pool, i64 $pool_signal
  store atomic i32 1, ptr %stop.at seq_cst, align 4
  %old = atomicrmw add ptr %signal.at, i32 1 seq_cst
  call void @wake(ptr %pool, ptr %signal.at, i32 2147483647)
  ret void
}
"""

_TAKE = """
; Run chunks of the job until none is left.
define internal void @take(ptr %pool) {
entry:
  %ticket.at = getelementptr i8, ptr %pool, i64 $pool_ticket
  %function.at = getelementptr i8, ptr %pool, i64 $pool_function
  %args.at = getelementptr i8, ptr %pool, i64 $pool_args
  %cubes.at = getelementptr i8, ptr %pool, i64 $pool_cubes
  %size.at = getelementptr i8, ptr %pool, i64 $pool_size
  %chunks.at = getelementptr i8, ptr %pool, i64 $pool_chunks
  br label %look
look:
  %done = phi i32 [ 0, %entry ], [ %done, %read ], [ %done.next, %run ]
  %ticket = load atomic i64, ptr %ticket.at acquire, align 8
  %left = trunc i64 %ticket to i32
  %some = icmp ne i32 %left, 0
  br i1 %some, label %read, label %finish
read:
  %function = load atomic ptr, ptr %function.at monotonic, align 8
  %args = load atomic ptr, ptr %args.at monotonic, align 8
  %cubes = load atomic i64, ptr %cubes.at monotonic, align 8
  %size = load atomic i64, ptr %size.at monotonic, align 8
  %chunks = load atomic i64, ptr %chunks.at monotonic, align 8
  %less = sub i64 %ticket, 1
  %exchange = cmpxchg ptr %ticket.at, i64 %ticket, i64 %less acq_rel acquire, align 8
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %run, label %look
run:
  %left.wide = zext i32 %left to i64
  %index = sub i64 %chunks, %left.wide
  %begin = mul i64 %index, %size
  %full = add i64 %begin, %size
  %short = icmp slt i64 %cubes, %full
  %end = select i1 %short, i64 %cubes, i64 %full
  call void %function(ptr %args, i64 %begin, i64 %end)
  %done.next = add i32 %done, 1
  br label %look
finish:
  %idle = icmp eq i32 %done, 0
  br i1 %idle, label %out, label %report
report:
  %pending.at = getelementptr i8, ptr %pool, i64 $pool_pending
  %before = atomicrmw sub ptr %pending.at, i32 %done seq_cst
  %last = icmp eq i32 %before, %done
  br i1 %last, label %call, label %out
call:
  %joining.at = getelementptr i8, ptr %pool, i64 $pool_joining
  %joining = load atomic i32, ptr %joining.at seq_cst, align 4
  %asleep = icmp ne i32 %joining, 0
  br i1 %asleep, label %wake, label %out
wake:
  call void @wake(ptr %pool, ptr %pending.at, i32 1)
  br label %out
out:
  ret void
}

; Wait until every chunk is done.
define internal void @join(ptr %pool) {
entry:
  %pending.at = getelementptr i8, ptr %pool, i64 $pool_pending
  %joining.at = getelementptr i8, ptr %pool, i64 $pool_joining
  %spin.at = getelementptr i8, ptr %pool, i64 $pool_spin
  %first = load atomic i32, ptr %pending.at acquire, align 4
  %none = icmp eq i32 %first, 0
  br i1 %none, label %out, label %idle
idle:
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i64 [ 0, %idle ], [ %turn.next, %again ]
  %pending = load atomic i32, ptr %pending.at acquire, align 4
  %done = icmp eq i32 %pending, 0
  br i1 %done, label %out, label %pause
pause:
  call void @pause()
  %turn.next = add i64 %turn, 1
  %low = and i64 %turn.next, 15
  %ask = icmp eq i64 %low, 0
  br i1 %ask, label %clock, label %again
clock:
  %time = call i64 @now()
  %spent = sub i64 %time, %since
  %spin = load atomic i64, ptr %spin.at monotonic, align 8
  %enough = icmp sge i64 %spent, %spin
  br i1 %enough, label %tired, label %again
again:
  br label %look
tired:
  store atomic i32 1, ptr %joining.at seq_cst, align 4
  br label %recheck
recheck:
  %pending.late = load atomic i32, ptr %pending.at seq_cst, align 4
  %done.late = icmp eq i32 %pending.late, 0
  br i1 %done.late, label %awake, label %sleep
sleep:
  call void @wait(ptr %pool, ptr %pending.at, i32 %pending.late)
  br label %recheck
awake:
  store atomic i32 0, ptr %joining.at monotonic, align 4
  br label %out
out:
  ret void
}
"""

_LAUNCH = """
; Run one record: in this thread, or by all threads when it is worth it and they are free.
define internal void @launch(ptr %pool, ptr %record) {
entry:
  %function.from = getelementptr i8, ptr %record, i64 $record_function
  %args.from = getelementptr i8, ptr %record, i64 $record_args
  %cubes.from = getelementptr i8, ptr %record, i64 $record_cubes
  %grain.from = getelementptr i8, ptr %record, i64 $record_grain
  %function = load ptr, ptr %function.from
  %args = load ptr, ptr %args.from
  %cubes = load i64, ptr %cubes.from
  %grain = load i64, ptr %grain.from
  %whole = icmp eq i64 %grain, 0
  %small = icmp sle i64 %cubes, %grain
  %alone = or i1 %whole, %small
  br i1 %alone, label %direct, label %workers
workers:
  %started.at = getelementptr i8, ptr %pool, i64 $pool_started
  %started = load atomic i32, ptr %started.at monotonic, align 4
  %nobody = icmp eq i32 %started, 0
  br i1 %nobody, label %direct, label %try
try:
  %lock.at = getelementptr i8, ptr %pool, i64 $pool_lock
  %exchange = cmpxchg ptr %lock.at, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %exchange, 1
  br i1 %mine, label %divide, label %direct
direct:
  call void %function(ptr %args, i64 0, i64 %cubes)
  ret void

divide:
  ; A chunk is a whole number of grains, so that kernels may count on its boundaries.
  %threads.at = getelementptr i8, ptr %pool, i64 $pool_threads
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %most = mul i64 %threads, $chunks_a_thread
  %grains.up = add i64 %cubes, %grain
  %grains.low = sub i64 %grains.up, 1
  %grains = udiv i64 %grains.low, %grain
  %each.up = add i64 %grains, %most
  %each.low = sub i64 %each.up, 1
  %each = udiv i64 %each.low, %most
  %size = mul i64 %each, %grain
  %chunks.up = add i64 %cubes, %size
  %chunks.low = sub i64 %chunks.up, 1
  %chunks = udiv i64 %chunks.low, %size
  %chunks.short = trunc i64 %chunks to i32

  %ticket.at = getelementptr i8, ptr %pool, i64 $pool_ticket
  %function.at = getelementptr i8, ptr %pool, i64 $pool_function
  %args.at = getelementptr i8, ptr %pool, i64 $pool_args
  %cubes.at = getelementptr i8, ptr %pool, i64 $pool_cubes
  %size.at = getelementptr i8, ptr %pool, i64 $pool_size
  %chunks.at = getelementptr i8, ptr %pool, i64 $pool_chunks
  %pending.at = getelementptr i8, ptr %pool, i64 $pool_pending
  store atomic ptr %function, ptr %function.at monotonic, align 8
  store atomic ptr %args, ptr %args.at monotonic, align 8
  store atomic i64 %cubes, ptr %cubes.at monotonic, align 8
  store atomic i64 %size, ptr %size.at monotonic, align 8
  store atomic i64 %chunks, ptr %chunks.at monotonic, align 8
  store atomic i32 %chunks.short, ptr %pending.at monotonic, align 4
  %old = load atomic i64, ptr %ticket.at monotonic, align 8
  %old.job = and i64 %old, -4294967296
  %job = add i64 %old.job, 4294967296
  %ticket = or i64 %job, %chunks
  store atomic i64 %ticket, ptr %ticket.at seq_cst, align 8

  %sleepers.at = getelementptr i8, ptr %pool, i64 $pool_sleepers
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  ; This thread takes a chunk too, so one worker less is of use.
  %signal.at = getelementptr i8, ptr %pool, i64 $pool_signal
  %signal = atomicrmw add ptr %signal.at, i32 1 seq_cst
  %useful = sub i32 %chunks.short, 1
  %few = icmp ult i32 %useful, %sleepers
  %count = select i1 %few, i32 %useful, i32 %sleepers
  call void @wake(ptr %pool, ptr %signal.at, i32 %count)
  br label %work
work:
  call void @take(ptr %pool)
  call void @join(ptr %pool)
  store atomic i32 0, ptr %lock.at release, align 4
  ret void
}
"""

_RUN = """
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

; Run an acquired plan and give it back. `times`, unless null, takes the clock before the first
; record and after each.
define internal i64 @go(ptr %plan, ptr %bases, ptr %times) {
entry:
  %pool.from = getelementptr i8, ptr %plan, i64 $plan_pool
  %moves.from = getelementptr i8, ptr %plan, i64 $plan_relocations
  %move.count.from = getelementptr i8, ptr %plan, i64 $plan_relocation_count
  %records.from = getelementptr i8, ptr %plan, i64 $plan_records
  %count.from = getelementptr i8, ptr %plan, i64 $plan_count
  %release.from = getelementptr i8, ptr %plan, i64 $plan_release
  %error.at = getelementptr i8, ptr %plan, i64 $plan_error
  %pool = load ptr, ptr %pool.from
  %moves = load ptr, ptr %moves.from
  %move.count = load i64, ptr %move.count.from
  %records = load ptr, ptr %records.from
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
  br i1 %moved, label %ready, label %move
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
  %i = phi i64 [ 0, %begin ], [ %i.next, %on ]
  %thread = phi ptr [ %thread.first, %begin ], [ %thread.on, %on ]
  %asked = phi i64 [ %start, %begin ], [ %asked.on, %on ]
  %end = icmp eq i64 %i, %count
  br i1 %end, label %finish, label %run
run:
  %record.byte = mul i64 %i, $sizeof_record
  %record = getelementptr i8, ptr %records, i64 %record.byte
  call void @launch(ptr %pool, ptr %record)
  %i.next = add i64 %i, 1
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
  %time.at = getelementptr i64, ptr %times, i64 %i.next
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

_CALL = """
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


def text(system: System) -> str:
    """Return the LLVM text of the whole runtime for a system."""
    known = {**offsets(), **system.constants}
    known |= {"signals_ns": _SIGNALS_NS, "chunks_a_thread": _CHUNKS}
    whole = system.text + _WORKER + _TAKE + _LAUNCH + _RUN + _CALL
    return Template(whole).substitute(known).lstrip()
