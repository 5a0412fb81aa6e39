#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void product(
    __global const float *restrict a,
    long a_offset,
    __global const float *restrict b,
    long b_offset,
    __global float *c,
    long c_offset,
    long n,
    long k) {
  a += a_offset;
  b += b_offset;
  c += c_offset;
  float4 t1 = (float4)(0.0f);
  long t2 = (long)get_group_id(0) * 2;
  long t3 = (long)get_group_id(1) * 4;
  long t4 = t2 * k;
  long t5 = t2 + 1;
  long t6 = t5 * k;
  float4 item = t1;
  float4 item_1 = t1;
  for (long i = 0; i < k; i++) {
    float4 b_ = *(__global const float4 *)(b + (i * n + t3));
    item = fma((float4)(a[t4 + i]), b_, item);
    item_1 = fma((float4)(a[t6 + i]), b_, item_1);
  }
  *(__global float4 *)(c + (t2 * n + t3)) = item;
  *(__global float4 *)(c + (t5 * n + t3)) = item_1;
}
