#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void cube_sum(
    __global const float *restrict x,
    long x_offset,
    __global float *y,
    long y_offset,
    long n) {
  x += x_offset;
  y += y_offset;
  __local float shared0[8];
  float private1[4];
  long unit_x = (long)get_local_id(0);
  long t1 = (long)get_group_id(0) * 8 + unit_x;
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
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (unit_x < 4) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 4];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (unit_x < 2) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 2];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (unit_x < 1) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 1];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (unit_x == 0) {
    y[t1 >> 3] = shared0[0];
  }
}
