#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Arguments {
  alignas(8) device const float *x;
  alignas(8) device float *y;
  alignas(8) long n;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void cube_sum(
    constant Arguments &arguments [[buffer(0)]],
    uint3 cube [[threadgroup_position_in_grid]],
    uint3 unit [[thread_position_in_threadgroup]]) {
  device const float *x = arguments.x;
  device float *y = arguments.y;
  long n = arguments.n;
  alignas(16) threadgroup float shared0[64];
  alignas(16) float private1[4];
  long unit_x = (long)unit.x;
  long t1 = (long)cube.x * 64 + unit_x;
  long t2 = t1 * 4;
  private1[0] = t2 < n ? x[t2] : 0.0f;
  long t3 = t2 + 1;
  private1[1] = t3 < n ? x[t3] : 0.0f;
  long t4 = t2 + 2;
  private1[2] = t4 < n ? x[t4] : 0.0f;
  long t5 = t2 + 3;
  private1[3] = t5 < n ? x[t5] : 0.0f;
  float total = private1[0];
  for (long i = 1; i < 4; i++) {
    total = total + private1[i];
  }
  shared0[unit_x] = total;
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 32) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 32];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 16) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 16];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 8) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 8];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 4) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 4];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 2) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 2];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x < 1) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 1];
  }
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  if (unit_x == 0) {
    y[t1 >> 6] = shared0[0];
  }
}
