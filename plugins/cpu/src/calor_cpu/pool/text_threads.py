"""The native text of the threads: a worker's loop, the distribution of chunks, a launch.

Requirements: a launch costs less than a microsecond while the workers poll. A preempted worker
delays one chunk and not half of the job, so chunks are distributed by a counter and the caller
takes part. A late worker, even in the middle of the next launch, does no harm. Polling is short.
Workers and caller run on different processors.

Distribution: the ticket is (job, first remaining grain, number of remaining grains) in one word. A
worker reads the ticket, then the job's description, then takes a chunk by compare-and-exchange of
the ticket with one of fewer grains. The exchange succeeds only while the job has remaining grains,
hence is unfinished, hence while the description that was read is the job's, because the next job
cannot be described earlier. Finished grains are subtracted from ``pending``; zero ends the job.
Chunks become smaller towards the end, so that all threads end together (Polychronopoulos and Kuck,
"Guided self-scheduling", 1987). The caller takes grains from the front and workers from the back,
so that a thread finds data of the previous launch in its caches.

Sleep: a thread announces that it sleeps, then checks once more. A producer publishes work, then
checks for sleepers. Both orders are sequentially consistent, so one of them sees the other.
"""

from __future__ import annotations

from typing import Final

WORKER: Final = """
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
  %left = and i64 %ticket, $ticket_mask
  %work = icmp ne i64 %left, 0
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
  %some.late = and i64 %ticket.late, $ticket_mask
  %left.late = trunc i64 %some.late to i32
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
  call void @take(ptr %pool, i1 true)
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

TAKE: Final = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

; Run chunks of the job, from the back or from the front, until none is left.
define internal void @take(ptr %pool, i1 %back) {
entry:
  %ticket.at = getelementptr i8, ptr %pool, i64 $pool_ticket
  %function.at = getelementptr i8, ptr %pool, i64 $pool_function
  %args.at = getelementptr i8, ptr %pool, i64 $pool_args
  %cubes.at = getelementptr i8, ptr %pool, i64 $pool_cubes
  %size.at = getelementptr i8, ptr %pool, i64 $pool_size
  %most.at = getelementptr i8, ptr %pool, i64 $pool_most
  %threads.at = getelementptr i8, ptr %pool, i64 $pool_threads
  br label %look
look:
  %done = phi i32 [ 0, %entry ], [ %done, %read ], [ %done.next, %run ]
  %ticket = load atomic i64, ptr %ticket.at acquire, align 8
  %left = and i64 %ticket, $ticket_mask
  %some = icmp ne i64 %left, 0
  br i1 %some, label %read, label %finish
read:
  %function = load atomic ptr, ptr %function.at monotonic, align 8
  %args = load atomic ptr, ptr %args.at monotonic, align 8
  %cubes = load atomic i64, ptr %cubes.at monotonic, align 8
  %size = load atomic i64, ptr %size.at monotonic, align 8
  %most = load atomic i64, ptr %most.at monotonic, align 8
  ; A thread takes the fourth part of its share of what is left, within bounds.
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %parts = shl i64 %threads, 2
  %part = udiv i64 %left, %parts
  %less.most = call i64 @llvm.umin.i64(i64 %part, i64 %most)
  %count = call i64 @llvm.umax.i64(i64 %less.most, i64 1)
  %fewer = sub i64 %ticket, %count
  %past = shl i64 %count, $ticket_bits
  %further = add i64 %fewer, %past
  %less = select i1 %back, i64 %fewer, i64 %further
  %exchange = cmpxchg ptr %ticket.at, i64 %ticket, i64 %less acq_rel acquire, align 8
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %run, label %look
run:
  %shifted = lshr i64 %ticket, $ticket_bits
  %front = and i64 %shifted, $ticket_mask
  %rest = sub i64 %left, %count
  %skipped = select i1 %back, i64 %rest, i64 0
  %index = add i64 %front, %skipped
  %begin = mul i64 %index, %size
  %length = mul i64 %count, %size
  %full = add i64 %begin, %length
  %short = icmp slt i64 %cubes, %full
  %end = select i1 %short, i64 %cubes, i64 %full
  call void %function(ptr %args, i64 %begin, i64 %end)
  %count.short = trunc i64 %count to i32
  %done.next = add i32 %done, %count.short
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

; Wait until every grain is done.
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

LAUNCH: Final = """
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
  ; A worker that the system put on the caller's processor gets no turn while the caller computes.
  %processor = call i32 @processor()
  %here = add i32 %processor, 1
  %home.at = getelementptr i8, ptr %pool, i64 $pool_home
  %home = load atomic i32, ptr %home.at monotonic, align 4
  %moved = icmp ne i32 %here, %home
  br i1 %moved, label %place, label %share
place:
  store atomic i32 %here, ptr %home.at monotonic, align 4
  call void @keep_off(ptr %pool, i32 %processor)
  br label %share

share:
  ; A chunk is a whole number of grains, so that kernels may count on its boundaries. Grains are
  ; larger where there would be more than the ticket can count.
  %grains.up = add i64 %cubes, %grain
  %grains.low = sub i64 %grains.up, 1
  %finest = udiv i64 %grains.low, %grain
  %beyond = lshr i64 %finest, $ticket_less
  %each = add i64 %beyond, 1
  %size = mul i64 %each, %grain
  %sizes.up = add i64 %cubes, %size
  %sizes.low = sub i64 %sizes.up, 1
  %grains = udiv i64 %sizes.low, %size
  %grains.short = trunc i64 %grains to i32
  %threads.at = getelementptr i8, ptr %pool, i64 $pool_threads
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %chunks = mul i64 %threads, $chunks_a_thread
  %most = udiv i64 %grains, %chunks

  %ticket.at = getelementptr i8, ptr %pool, i64 $pool_ticket
  %function.at = getelementptr i8, ptr %pool, i64 $pool_function
  %args.at = getelementptr i8, ptr %pool, i64 $pool_args
  %cubes.at = getelementptr i8, ptr %pool, i64 $pool_cubes
  %size.at = getelementptr i8, ptr %pool, i64 $pool_size
  %most.at = getelementptr i8, ptr %pool, i64 $pool_most
  %pending.at = getelementptr i8, ptr %pool, i64 $pool_pending
  store atomic ptr %function, ptr %function.at monotonic, align 8
  store atomic ptr %args, ptr %args.at monotonic, align 8
  store atomic i64 %cubes, ptr %cubes.at monotonic, align 8
  store atomic i64 %size, ptr %size.at monotonic, align 8
  store atomic i64 %most, ptr %most.at monotonic, align 8
  store atomic i32 %grains.short, ptr %pending.at monotonic, align 4
  %old = load atomic i64, ptr %ticket.at monotonic, align 8
  %old.all = or i64 %old, $ticket_place
  %job = add i64 %old.all, 1
  %ticket = or i64 %job, %grains
  store atomic i64 %ticket, ptr %ticket.at seq_cst, align 8

  %sleepers.at = getelementptr i8, ptr %pool, i64 $pool_sleepers
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  ; This thread takes a chunk too, so one worker less is of use.
  %signal.at = getelementptr i8, ptr %pool, i64 $pool_signal
  %signal = atomicrmw add ptr %signal.at, i32 1 seq_cst
  %useful = sub i32 %grains.short, 1
  %few = icmp ult i32 %useful, %sleepers
  %count = select i1 %few, i32 %useful, i32 %sleepers
  call void @wake(ptr %pool, ptr %signal.at, i32 %count)
  br label %work
work:
  call void @take(ptr %pool, i1 false)
  call void @join(ptr %pool)
  store atomic i32 0, ptr %lock.at release, align 4
  ret void
}
"""
