typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
struct __align__(16) float32x4 { float v[4]; };

extern "C" __global__ void __launch_bounds__(1)
product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *c,
    int64 n,
    int64 k) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  float32x4 t1 = float32x4{0.0f, 0.0f, 0.0f, 0.0f};
  int64 t2 = (int64)blockIdx.x * 2;
  int64 t3 = (int64)blockIdx.y * 4;
  int64 t4 = t2 * k;
  int64 t5 = t2 + 1;
  int64 t6 = t5 * k;
  float32x4 item = t1;
  float32x4 item_1 = t1;
  for (int64 i = 0; i < k; i++) {
    float32x4 b_ = *(const float32x4 *)(b + (i * n + t3));
    float t7 = a[t4 + i];
    float32x4 t8 = float32x4{t7, t7, t7, t7};
    float32x4 t9 = float32x4{__fmaf_rn(t8.v[0], b_.v[0], item.v[0]), __fmaf_rn(t8.v[1], b_.v[1], item.v[1]), __fmaf_rn(t8.v[2], b_.v[2], item.v[2]), __fmaf_rn(t8.v[3], b_.v[3], item.v[3])};
    float t10 = a[t6 + i];
    float32x4 t11 = float32x4{t10, t10, t10, t10};
    float32x4 t12 = float32x4{__fmaf_rn(t11.v[0], b_.v[0], item_1.v[0]), __fmaf_rn(t11.v[1], b_.v[1], item_1.v[1]), __fmaf_rn(t11.v[2], b_.v[2], item_1.v[2]), __fmaf_rn(t11.v[3], b_.v[3], item_1.v[3])};
    item = t9;
    item_1 = t12;
  }
  *(float32x4 *)(c + (t2 * n + t3)) = item;
  *(float32x4 *)(c + (t5 * n + t3)) = item_1;
}
