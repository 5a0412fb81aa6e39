typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

extern "C" __global__ void __launch_bounds__(8)
cube_sum(const float *__restrict__ x, float *y, int64 n) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  __shared__ __align__(4) float shared0[8];
  __align__(4) float private1[4];
  int64 unit_x = (int64)threadIdx.x;
  int64 t1 = (int64)blockIdx.x * 8 + unit_x;
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
  __syncthreads();
  if (unit_x < 4) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 4];
  }
  __syncthreads();
  if (unit_x < 2) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 2];
  }
  __syncthreads();
  if (unit_x < 1) {
    shared0[unit_x] = shared0[unit_x] + shared0[unit_x + 1];
  }
  __syncthreads();
  if (unit_x == 0) {
    y[t1 >> 3] = shared0[0];
  }
}
