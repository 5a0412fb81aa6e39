#pragma OPENCL FP_CONTRACT OFF

static inline uint warp_ballot(uint x) {
  uint y;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; "
    "vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(y) : "r"(x));
  return y;
}
static inline uint warp_down(uint x, uint lane) {
  uint y;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, 0x1f, 0xffffffff;"
    : "=r"(y) : "r"(x), "r"(lane));
  return y;
}
static inline ulong warp_down_64(ulong x, uint lane) {
  uint2 y = as_uint2(x);
  return as_ulong((uint2)(warp_down(y.x, lane), warp_down(y.y, lane)));
}
static inline uint warp_up(uint x, uint lane) {
  uint y;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;"
    : "=r"(y) : "r"(x), "r"(lane));
  return y;
}
static inline ulong warp_up_64(ulong x, uint lane) {
  uint2 y = as_uint2(x);
  return as_ulong((uint2)(warp_up(y.x, lane), warp_up(y.y, lane)));
}
static inline uint warp_bfly(uint x, uint lane) {
  uint y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
    : "=r"(y) : "r"(x), "r"(lane));
  return y;
}
static inline ulong warp_bfly_64(ulong x, uint lane) {
  uint2 y = as_uint2(x);
  return as_ulong((uint2)(warp_bfly(y.x, lane), warp_bfly(y.y, lane)));
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void voted(__global float *x, long x_offset, __global ulong *y, long y_offset) {
  x += x_offset;
  y += y_offset;
  long unit_x = (long)get_local_id(0);
  ulong ballot = (ulong)warp_ballot((uint)(x[unit_x] > 0.0f));
  y[unit_x] = ballot;
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  ulong y_ = y[unit_x];
  ulong shuffle = as_ulong(warp_up_64(as_ulong(y[unit_x]), (uint)1));
  ulong shuffle_1 = as_ulong(warp_down_64(as_ulong(y[unit_x]), (uint)2));
  y[unit_x] = y_ + shuffle + shuffle_1;
  ulong y_1 = y[unit_x];
  ulong shuffle_2 = as_ulong(warp_bfly_64(as_ulong(y[unit_x]), (uint)4));
  y[unit_x] = y_1 + shuffle_2;
}
