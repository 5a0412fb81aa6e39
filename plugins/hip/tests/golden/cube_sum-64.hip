#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#ifndef __align__
#define __align__(n) __attribute__((aligned(n)))
#endif

typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
__device__ __forceinline__ void meet_cube() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(64, 64)))
cube_sum(const float *__restrict__ x, float *y, int64 n) {
  __shared__ __align__(4) float shared0[64];
  __align__(4) float private1[4];
  int64 unit_x = (int64)__builtin_amdgcn_workitem_id_x();
  int64 t1 = (int64)__builtin_amdgcn_workgroup_id_x() * 64 + unit_x;
  int64 t2 = t1 * 4;
  private1[0] = t2 < n ? x[t2] : 0.0f;
  int64 t3 = t2 + 1;
  private1[1] = t3 < n ? x[t3] : 0.0f;
  int64 t4 = t2 + 2;
  private1[2] = t4 < n ? x[t4] : 0.0f;
  int64 t5 = t2 + 3;
  private1[3] = t5 < n ? x[t5] : 0.0f;
  float total = private1[0];
  for (int64 i = 1; i < 4; i++) {
    total = total + private1[i];
  }
  shared0[unit_x] = total;
  meet_cube();
  if (unit_x < 32) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 32];
  }
  meet_cube();
  if (unit_x < 16) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 16];
  }
  meet_cube();
  if (unit_x < 8) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 8];
  }
  meet_cube();
  if (unit_x < 4) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 4];
  }
  meet_cube();
  if (unit_x < 2) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 2];
  }
  meet_cube();
  if (unit_x < 1) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 1];
  }
  meet_cube();
  if (unit_x == 0) {
    y[t1 >> 6] = shared0[0];
  }
}
