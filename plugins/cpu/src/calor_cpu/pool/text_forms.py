"""The native text that fills in a plan that differs from a known one in numbers only.

Requirements: every new size of a program takes this path, so a number costs nanoseconds. Launches
are divided in the same way as during recording.
"""

from __future__ import annotations

from typing import Final

FILL: Final = """
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyCFunction_NewEx(ptr, ptr, ptr)
declare i32 @PyErr_BadArgument()

; What Python calls (METH_FASTCALL): `self` is the form's address, the arguments are the address of
; words that are as the form's first plan has them, who owns them, and numbers. Returns the built-in
; function that runs the plan.
define ptr @fill(ptr %self, ptr %arguments, i64 %given) {
entry:
  %form = call ptr @PyLong_AsVoidPtr(ptr %self)
  %values.from = getelementptr i8, ptr %form, i64 $form_values
  %wanted.from = getelementptr i8, ptr %form, i64 $form_given
  %pointers.from = getelementptr i8, ptr %form, i64 $form_pointers
  %pointer.count.from = getelementptr i8, ptr %form, i64 $form_pointer_count
  %moves.from = getelementptr i8, ptr %form, i64 $form_moves
  %move.count.from = getelementptr i8, ptr %form, i64 $form_move_count
  %kinds.from = getelementptr i8, ptr %form, i64 $form_kinds
  %kind.count.from = getelementptr i8, ptr %form, i64 $form_kind_count
  %launches.from = getelementptr i8, ptr %form, i64 $form_launches
  %launch.count.from = getelementptr i8, ptr %form, i64 $form_launch_count
  %call.from = getelementptr i8, ptr %form, i64 $form_call
  %flops.from = getelementptr i8, ptr %form, i64 $form_flops
  %nbytes.from = getelementptr i8, ptr %form, i64 $form_nbytes
  %near.from = getelementptr i8, ptr %form, i64 $form_near
  %near.nbytes.from = getelementptr i8, ptr %form, i64 $form_near_nbytes
  %shared.from = getelementptr i8, ptr %form, i64 $form_shared
  %chunk.from = getelementptr i8, ptr %form, i64 $form_chunk
  %keep.from = getelementptr i8, ptr %form, i64 $form_keep
  %values = load ptr, ptr %values.from
  %wanted = load i64, ptr %wanted.from
  %pointers = load ptr, ptr %pointers.from
  %pointer.count = load i64, ptr %pointer.count.from
  %moves = load ptr, ptr %moves.from
  %move.count = load i64, ptr %move.count.from
  %kinds = load ptr, ptr %kinds.from
  %kind.count = load i64, ptr %kind.count.from
  %launches = load ptr, ptr %launches.from
  %launch.count = load i64, ptr %launch.count.from
  %call = load ptr, ptr %call.from
  %flops.rate = load double, ptr %flops.from
  %far.rate = load double, ptr %nbytes.from
  %near = load double, ptr %near.from
  %near.rate = load double, ptr %near.nbytes.from
  %shared = load double, ptr %shared.from
  %chunk = load double, ptr %chunk.from
  %keep = load double, ptr %keep.from
  %least = add i64 %wanted, 2
  %few = icmp slt i64 %given, %least
  br i1 %few, label %bad, label %memory
bad:
  %set = call i32 @PyErr_BadArgument()
  ret ptr null

memory:
  %address.object = load ptr, ptr %arguments
  %words = call ptr @PyLong_AsVoidPtr(ptr %address.object)
  %start = ptrtoint ptr %words to i64
  %owner.from = getelementptr ptr, ptr %arguments, i64 1
  %owner = load ptr, ptr %owner.from
  %numbers = getelementptr ptr, ptr %arguments, i64 2
  br label %convert.next
convert.next:
  %c = phi i64 [ 0, %memory ], [ %c.next, %store ]
  %converted = icmp eq i64 %c, %wanted
  br i1 %converted, label %pointer.next, label %convert
convert:
  %number.from = getelementptr ptr, ptr %numbers, i64 %c
  %number = load ptr, ptr %number.from
  %value = call i64 @PyLong_AsUnsignedLongLongMask(ptr %number)
  %ones = icmp eq i64 %value, -1
  br i1 %ones, label %doubt, label %store
doubt:
  %error = call ptr @PyErr_Occurred()
  %sound = icmp eq ptr %error, null
  br i1 %sound, label %store, label %refuse
refuse:
  ret ptr null
store:
  %value.at = getelementptr i64, ptr %values, i64 %c
  store i64 %value, ptr %value.at
  %c.next = add i64 %c, 1
  br label %convert.next

pointer.next:
  %p = phi i64 [ 0, %convert.next ], [ %p.next, %point ]
  %pointed = icmp eq i64 %p, %pointer.count
  br i1 %pointed, label %move.next, label %point
point:
  %pointer.from = getelementptr i64, ptr %pointers, i64 %p
  %pointer = load i64, ptr %pointer.from
  %place.at = getelementptr i64, ptr %words, i64 %pointer
  %place = load i64, ptr %place.at
  %placed = add i64 %place, %start
  store i64 %placed, ptr %place.at
  %p.next = add i64 %p, 1
  br label %pointer.next

move.next:
  %m = phi i64 [ 0, %pointer.next ], [ %m.next, %move ]
  %moved = icmp eq i64 %m, %move.count
  br i1 %moved, label %kind.next, label %move
move:
  %pair = mul i64 %m, 2
  %word.from = getelementptr i64, ptr %moves, i64 %pair
  %which.from = getelementptr i64, ptr %word.from, i64 1
  %word = load i64, ptr %word.from
  %which = load i64, ptr %which.from
  %new.from = getelementptr i64, ptr %values, i64 %which
  %new = load i64, ptr %new.from
  %word.at = getelementptr i64, ptr %words, i64 %word
  store i64 %new, ptr %word.at
  %m.next = add i64 %m, 1
  br label %move.next

kind.next:
  %k = phi i64 [ 0, %move.next ], [ %k.next, %kind.end ]
  %total = phi double [ 0.0, %move.next ], [ %total.next, %kind.end ]
  %parallel = phi i32 [ 0, %move.next ], [ %parallel.next, %kind.end ]
  %kinds.done = icmp eq i64 %k, %kind.count
  br i1 %kinds.done, label %launch.next, label %kind
kind:
  %kind.byte = mul i64 %k, $sizeof_kind
  %kind.at = getelementptr i8, ptr %kinds, i64 %kind.byte
  %x.from = getelementptr i8, ptr %kind.at, i64 $kind_x
  %y.from = getelementptr i8, ptr %kind.at, i64 $kind_y
  %z.from = getelementptr i8, ptr %kind.at, i64 $kind_z
  %f.from = getelementptr i8, ptr %kind.at, i64 $kind_flops
  %b.from = getelementptr i8, ptr %kind.at, i64 $kind_nbytes
  %times.from = getelementptr i8, ptr %kind.at, i64 $kind_times
  %x.place = load i64, ptr %x.from
  %y.place = load i64, ptr %y.from
  %z.place = load i64, ptr %z.from
  %f.place = load i64, ptr %f.from
  %b.place = load i64, ptr %b.from
  %times = load i64, ptr %times.from
  %x.at = getelementptr i64, ptr %values, i64 %x.place
  %y.at = getelementptr i64, ptr %values, i64 %y.place
  %z.at = getelementptr i64, ptr %values, i64 %z.place
  %f.at = getelementptr i64, ptr %values, i64 %f.place
  %b.at = getelementptr i64, ptr %values, i64 %b.place
  %x = load i64, ptr %x.at
  %y = load i64, ptr %y.at
  %z = load i64, ptr %z.at
  %f = load i64, ptr %f.at
  %b = load i64, ptr %b.at
  %xy = mul i64 %x, %y
  %count = mul i64 %xy, %z
  %f.wide = uitofp i64 %f to double
  %b.wide = uitofp i64 %b to double
  %computing = fdiv double %f.wide, %flops.rate
  %is.far = fcmp ogt double %b.wide, %near
  %nbytes.rate = select i1 %is.far, double %far.rate, double %near.rate
  %moving = fdiv double %b.wide, %nbytes.rate
  %computes = fcmp ogt double %computing, %moving
  %said = select i1 %computes, double %computing, double %moving
  ; What says nothing of its work takes infinitely long.
  %silent = fcmp oeq double %said, 0.0
  %seconds = select i1 %silent, double 0x7FF0000000000000, double %said
  %times.wide = sitofp i64 %times to double
  %spent = fmul double %seconds, %times.wide
  %total.next = fadd double %total, %spent
  %one = icmp slt i64 %count, 2
  %short = fcmp olt double %seconds, %shared
  %whole = or i1 %one, %short
  br i1 %whole, label %kind.end, label %divide
divide:
  %count.wide = sitofp i64 %count to double
  %share = fmul double %chunk, %count.wide
  %quotient = fdiv double %share, %seconds
  %up = fadd double %quotient, 0.5
  %rounded = fptosi double %up to i64
  %none = icmp slt i64 %rounded, 1
  %least.one = select i1 %none, i64 1, i64 %rounded
  %above = icmp sgt i64 %least.one, %count
  %divided = select i1 %above, i64 %count, i64 %least.one
  br label %kind.end
kind.end:
  %grain = phi i64 [ 0, %kind ], [ %divided, %divide ]
  %some = icmp ne i64 %grain, 0
  %parts = icmp slt i64 %grain, %count
  %several = and i1 %some, %parts
  %several.wide = zext i1 %several to i32
  %parallel.next = or i32 %parallel, %several.wide
  %count.at = getelementptr i8, ptr %kind.at, i64 $kind_count
  %grain.at = getelementptr i8, ptr %kind.at, i64 $kind_grain
  store i64 %count, ptr %count.at
  store i64 %grain, ptr %grain.at
  %k.next = add i64 %k, 1
  br label %kind.next

launch.next:
  %l = phi i64 [ 0, %kind.next ], [ %l.next, %launch ]
  %launched = icmp eq i64 %l, %launch.count
  br i1 %launched, label %flags, label %launch
launch:
  %of.from = getelementptr i64, ptr %launches, i64 %l
  %of = load i64, ptr %of.from
  %of.byte = mul i64 %of, $sizeof_kind
  %of.at = getelementptr i8, ptr %kinds, i64 %of.byte
  %cubes.from = getelementptr i8, ptr %of.at, i64 $kind_count
  %each.from = getelementptr i8, ptr %of.at, i64 $kind_grain
  %cubes = load i64, ptr %cubes.from
  %each = load i64, ptr %each.from
  %record.byte = mul i64 %l, $sizeof_record
  %records = getelementptr i8, ptr %words, i64 $sizeof_plan
  %record = getelementptr i8, ptr %records, i64 %record.byte
  %cubes.at = getelementptr i8, ptr %record, i64 $record_cubes
  %each.at = getelementptr i8, ptr %record, i64 $record_grain
  store i64 %cubes, ptr %cubes.at
  store i64 %each, ptr %each.at
  %l.next = add i64 %l, 1
  br label %launch.next

flags:
  %long = fcmp ogt double %total, %keep
  %release = zext i1 %long to i32
  %parallel.at = getelementptr i8, ptr %words, i64 $plan_parallel
  %release.at = getelementptr i8, ptr %words, i64 $plan_release
  %owner.at = getelementptr i8, ptr %words, i64 $plan_owner
  store i32 %parallel, ptr %parallel.at
  store i32 %release, ptr %release.at
  store ptr %owner, ptr %owner.at
  %made = call ptr @PyCFunction_NewEx(ptr %call, ptr %address.object, ptr %owner)
  ret ptr %made
}
"""
