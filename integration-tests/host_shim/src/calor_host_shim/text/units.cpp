// Runs cubes of many units on one thread: a stack for each unit, switched where units meet.
//
// Cubes run one after another. Of a cube each unit runs until it waits; units that wait for others
// are passed over until those came. What cannot go on is an error and not a hang: units that wait
// for one that is gone, and units that meet at different operations.

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "units.h"

#if !defined(__x86_64__) || defined(CALOR_UCONTEXT)
#include <ucontext.h>
#define CALOR_UCONTEXT 1
#endif

namespace {

enum { MOST_UNITS = 1024, STACK = 256 << 10, GUARD = 4096, VALUE = 16, POISON = 0xa5 };

struct Group {
  const char *operation;
  unsigned size, arrived, meetings;
};

struct Unit {
  Place place;
#ifdef CALOR_UCONTEXT
  ucontext_t context;
#else
  void *top;
#endif
  Group *waits_for;
  unsigned meetings;  // of that group when it began to wait
  bool done;
};

typedef void (*Body)(const void *arguments);

Unit units[MOST_UNITS];
Group cube, planes[MOST_UNITS];
// Of two meetings one after another, so that a unit may be one ahead of those that still read.
unsigned char values[2][MOST_UNITS][VALUE];
unsigned char *stacks;
Unit *running;
Body body;
const void *body_arguments;
char failure[512];

#ifdef CALOR_UCONTEXT
ucontext_t scheduler;
void leave(Unit *unit) { swapcontext(&unit->context, &scheduler); }
void enter(Unit *unit) { swapcontext(&scheduler, &unit->context); }
#else
void *scheduler;
extern "C" void calor_switch(void **from, void *to);
// What a function may not change, and the stack: System V's calling convention for x86-64.
asm(R"(
.text
.globl calor_switch
.hidden calor_switch
.type calor_switch, @function
calor_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size calor_switch, . - calor_switch
)");
void leave(Unit *unit) { calor_switch(&unit->top, scheduler); }
void enter(Unit *unit) { calor_switch(&scheduler, unit->top); }
#endif

void run_unit() {
  body(body_arguments);
  running->done = true;
  leave(running);
}

void prepare(Unit *unit, unsigned number) {
  unsigned char *low = stacks + (size_t)number * STACK;
#ifdef CALOR_UCONTEXT
  getcontext(&unit->context);
  unit->context.uc_stack.ss_sp = low + GUARD;
  unit->context.uc_stack.ss_size = STACK - GUARD;
  unit->context.uc_link = &scheduler;
  makecontext(&unit->context, run_unit, 0);
#else
  // A function begins where its stack is 8 beyond a multiple of 16: below is where it returns to.
  void **top = (void **)(low + STACK - 16);
  *--top = 0;
  *--top = (void *)run_unit;
  unit->top = top - 6;
#endif
}

void fail(const char *form, ...) {
  va_list rest;
  va_start(rest, form);
  if (!failure[0]) vsnprintf(failure, sizeof failure, form, rest);
  va_end(rest);
}

void meet(Group *group, const char *operation, const char *of) {
  if (!group->arrived) group->operation = operation;
  if (strcmp(group->operation, operation)) {
    fail("units of a %s meet at %s and at %s", of, group->operation, operation);
    leave(running);
  }
  if (++group->arrived == group->size) {
    group->arrived = 0;
    group->meetings++;
    return;
  }
  running->waits_for = group;
  running->meetings = group->meetings;
  leave(running);
}

Group *plane_of(const Unit *unit) { return &planes[unit->place.index / calor_plane]; }

// Runs the units of a cube to their ends.
void run_cube(unsigned count) {
  for (unsigned left = count; left && !failure[0];) {
    bool moved = false;
    for (unsigned i = 0; i < count && !failure[0]; i++) {
      Unit *unit = &units[i];
      if (unit->done) continue;
      if (unit->waits_for && unit->waits_for->meetings == unit->meetings) continue;
      unit->waits_for = 0;
      moved = true;
      running = unit;
      calor_place = &unit->place;
      enter(unit);
      left -= unit->done;
    }
    if (!moved) {
      for (unsigned i = 0; i < count; i++)
        if (!units[i].done)
          fail("%u of %u units wait at %s for units that do not come", left, count,
               units[i].waits_for->operation);
    }
  }
}

}  // namespace

extern "C" {

const Place *calor_place;
unsigned calor_plane;

void calor_meet_plane(const char *operation) { meet(plane_of(running), operation, "plane"); }

void calor_meet_cube(const char *operation) { meet(&cube, operation, "cube"); }

unsigned calor_plane_size(void) { return plane_of(running)->size; }

const unsigned char *calor_exchange(const char *operation, const void *value, unsigned bytes) {
  Group *plane = plane_of(running);
  unsigned first = running->place.index / calor_plane * calor_plane;
  unsigned char (*side)[VALUE] = values[plane->meetings & 1];
  memcpy(side[running->place.index], value, bytes);
  meet(plane, operation, "plane");
  return side[first];
}

// Runs a kernel: cubes[0] * cubes[1] * cubes[2] cubes, x fastest, of units[0] * units[1] * units[2]
// units each. `shared` bytes of memory are filled before each cube, for nobody may rely on what is
// there. Returns nothing, or why it cannot go on.
const char *calor_run(Body kernel, const void *arguments, const uint32_t *cubes,
                      const uint32_t *size, uint32_t plane, unsigned char *shared,
                      uint64_t shared_bytes) {
  const unsigned count = size[0] * size[1] * size[2];
  failure[0] = 0;
  if (!count || count > MOST_UNITS) {
    fail("a cube has from 1 to %d units, not %u", MOST_UNITS, count);
    return failure;
  }
  if (!stacks) {
    stacks = (unsigned char *)mmap(0, (size_t)MOST_UNITS * STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
      stacks = 0;
      return "there is no memory for the stacks of units";
    }
    for (unsigned i = 0; i < MOST_UNITS; i++) mprotect(stacks + (size_t)i * STACK, GUARD, PROT_NONE);
  }
  body = kernel;
  body_arguments = arguments;
  calor_plane = plane;
  for (uint32_t z = 0; z < cubes[2]; z++)
    for (uint32_t y = 0; y < cubes[1]; y++)
      for (uint32_t x = 0; x < cubes[0]; x++) {
        if (shared_bytes) memset(shared, POISON, shared_bytes);
        cube = Group{"", count, 0, 0};
        for (unsigned i = 0; i < count; i += plane)
          planes[i / plane] = Group{"", count - i < plane ? count - i : plane, 0, 0};
        for (unsigned i = 0; i < count; i++) {
          Unit *unit = &units[i];
          unit->place = Place{{x, y, z},
                              {cubes[0], cubes[1], cubes[2]},
                              {i % size[0], i / size[0] % size[1], i / size[0] / size[1]},
                              {size[0], size[1], size[2]},
                              i};
          unit->waits_for = 0;
          unit->done = false;
          prepare(unit, i);
        }
        run_cube(count);
        if (failure[0]) return failure;
      }
  return 0;
}
}
