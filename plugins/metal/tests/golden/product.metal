#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Arguments {
  alignas(8) device const float *a;
  alignas(8) device const float *b;
  alignas(8) device float *c;
  alignas(8) long n;
  alignas(8) long k;
};

[[max_total_threads_per_threadgroup(1)]]
kernel void product(
    constant Arguments &arguments [[buffer(0)]],
    uint3 cube [[threadgroup_position_in_grid]]) {
  device const float *a = arguments.a;
  device const float *b = arguments.b;
  device float *c = arguments.c;
  long n = arguments.n;
  long k = arguments.k;
  float4 t1 = float4(0.0f, 0.0f, 0.0f, 0.0f);
  long t2 = (long)cube.x * 2;
  long t3 = (long)cube.y * 4;
  long t4 = t2 * k;
  long t5 = t2 + 1;
  long t6 = t5 * k;
  float4 item = t1;
  float4 item_1 = t1;
  for (long i = 0; i < k; i++) {
    float4 b_ = *(device const float4 *)(b + (i * n + t3));
    float t7 = a[t4 + i];
    float4 t8 = float4(t7, t7, t7, t7);
    float4 t9 = float4(fma(t8.x, b_.x, item.x), fma(t8.y, b_.y, item.y), fma(t8.z, b_.z, item.z), fma(t8.w, b_.w, item.w));
    float t10 = a[t6 + i];
    float4 t11 = float4(t10, t10, t10, t10);
    float4 t12 = float4(fma(t11.x, b_.x, item_1.x), fma(t11.y, b_.y, item_1.y), fma(t11.z, b_.z, item_1.z), fma(t11.w, b_.w, item_1.w));
    item = t9;
    item_1 = t12;
  }
  *(device float4 *)(c + (t2 * n + t3)) = item;
  *(device float4 *)(c + (t5 * n + t3)) = item_1;
}
