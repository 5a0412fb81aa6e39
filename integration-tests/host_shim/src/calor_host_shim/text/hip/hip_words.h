// The words of HIP C++ that calor's kernels use, which clang brings for AMD's processors.
//
// Functions of clang's own are macros, for a compiler may know their names and refuse others of
// them. What moves between lanes moves as 32 bits, and a lane that is not there gives 0.
#pragma once
#include "planes.h"

#define __global__ __attribute__((visibility("hidden")))
#define __device__
#define __shared__ static __attribute__((section("calor_shared")))

#define __builtin_amdgcn_workgroup_id_x() (calor_place->cube[0])
#define __builtin_amdgcn_workgroup_id_y() (calor_place->cube[1])
#define __builtin_amdgcn_workgroup_id_z() (calor_place->cube[2])
#define __builtin_amdgcn_workitem_id_x() (calor_place->unit[0])
#define __builtin_amdgcn_workitem_id_y() (calor_place->unit[1])
#define __builtin_amdgcn_workitem_id_z() (calor_place->unit[2])
#define __builtin_amdgcn_grid_size_x() (calor_place->cubes[0] * calor_place->units[0])
#define __builtin_amdgcn_grid_size_y() (calor_place->cubes[1] * calor_place->units[1])
#define __builtin_amdgcn_grid_size_z() (calor_place->cubes[2] * calor_place->units[2])

// The lanes below this one: those of the first 32, and more of the others.
#define __builtin_amdgcn_mbcnt_lo(mask, n) ((n) + (calor_lane() < 32 ? calor_lane() : 32))
#define __builtin_amdgcn_mbcnt_hi(mask, n) ((n) + (calor_lane() < 32 ? 0 : calor_lane() - 32))
#define __builtin_amdgcn_s_barrier() calor_meet_cube("s_barrier")
#define __builtin_amdgcn_wave_barrier() calor_meet_plane("wave_barrier")
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_ballot_w64(x) calor_votes("ballot", x)
#define __builtin_amdgcn_ballot_w32(x) ((unsigned)calor_votes("ballot", x))
#define __builtin_amdgcn_ds_bpermute calor_bpermute

inline int calor_bpermute(int place, int x) {
  unsigned lane = ((unsigned)place >> 2) % calor_plane;
  int found = calor_shuffled("ds_bpermute", x, lane);
  return lane < calor_plane_size() ? found : 0;
}

// Which is within some units of the last place, and results below the smallest normal number are 0.
#define __builtin_amdgcn_exp2f calor_power_of_two
inline float calor_power_of_two(float x) { return x < -126.0f ? 0.0f : __builtin_exp2f(x); }

// Atomics: one thread runs all units, and switches in none of these.
#define __HIP_MEMORY_SCOPE_AGENT 4
#define CALOR_FETCH(NAME, CHANGED)                                               \
  template <class T> inline T calor_##NAME(T *p, T b, int, int) {                \
    T a = *p;                                                                    \
    *p = CHANGED;                                                                \
    return a;                                                                    \
  }
CALOR_FETCH(fetch_add, a + b)
CALOR_FETCH(fetch_min, a < b ? a : b)
CALOR_FETCH(fetch_max, a < b ? b : a)
CALOR_FETCH(fetch_and, a & b)
CALOR_FETCH(fetch_or, a | b)
CALOR_FETCH(fetch_xor, a ^ b)
CALOR_FETCH(exchanged, b)
#define __hip_atomic_fetch_add calor_fetch_add
#define __hip_atomic_fetch_min calor_fetch_min
#define __hip_atomic_fetch_max calor_fetch_max
#define __hip_atomic_fetch_and calor_fetch_and
#define __hip_atomic_fetch_or calor_fetch_or
#define __hip_atomic_fetch_xor calor_fetch_xor
#define __hip_atomic_exchange calor_exchanged
#define __hip_atomic_compare_exchange_strong calor_compare
template <class T> inline bool calor_compare(T *p, T *expected, T wanted, int, int, int) {
  bool same = *p == *expected;
  *expected = *p;
  if (same) *p = wanted;
  return same;
}

// Matrix instructions: each lane gives its factors, and computes its own sums, in order of k.
template <class V> struct CalorFactors {
  enum { PARTS = (sizeof(V) + 15) / 16, EACH = sizeof(V) < 16 ? sizeof(V) : 16 };
  unsigned char held[64][sizeof(V)];
  CalorFactors(const char *operation, V x) {
    for (unsigned part = 0; part < PARTS; part++) {
      const unsigned char *all =
          calor_exchange(operation, (const unsigned char *)&x + 16 * part, EACH);
      for (unsigned lane = 0; lane < calor_plane; lane++)
        __builtin_memcpy(held[lane] + 16 * part, all + 16 * lane, EACH);
    }
  }
  template <class E> E element(unsigned lane, unsigned i) const {
    E e;
    __builtin_memcpy(&e, held[lane] + i * sizeof e, sizeof e);
    return e;
  }
};
inline float calor_number(float x) { return x; }
inline float calor_number(_Float16 x) { return (float)x; }
inline float calor_number(short x) {
  unsigned bits = (unsigned)(unsigned short)x << 16;
  return __builtin_bit_cast(float, bits);
}

// M × M × K on 64 lanes: M of them along rows of a and columns of b, groups of them along k.
template <class E, unsigned M, unsigned K, class V, class S>
inline S calor_mfma(const char *operation, V a, V b, S sums) {
  const unsigned EACH = sizeof(V) / sizeof(E), lane = calor_lane();
  CalorFactors<V> left(operation, a), right(operation, b);
  for (unsigned r = 0; r < sizeof(S) / 4; r++) {
    unsigned row = r % 4 + 256 / M * (r / 4) + 4 * (lane / M);
    float sum = sums[r];
    for (unsigned k = 0; k < K; k++)
      sum = __builtin_fmaf(
          calor_number(left.template element<E>(row + M * (k / EACH), k % EACH)),
          calor_number(right.template element<E>(lane % M + M * (k / EACH), k % EACH)), sum);
    sums[r] = sum;
  }
  return sums;
}
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z) \
  calor_mfma<_Float16, 32, 8>("mfma", a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) \
  calor_mfma<_Float16, 16, 16>("mfma", a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) \
  calor_mfma<short, 32, 8>("mfma", a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) \
  calor_mfma<short, 16, 16>("mfma", a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, x, y, z) \
  calor_mfma<float, 32, 2>("mfma", a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, x, y, z) \
  calor_mfma<float, 16, 4>("mfma", a, b, c)

// 16 × 16 × 16 on 32 lanes, of which both halves have the same factors; AMD's "RDNA3 Instruction
// Set Architecture", 7.9.
template <class E, class V, class S>
inline S calor_wmma(const char *operation, V a, V b, S sums) {
  const unsigned lane = calor_lane();
  CalorFactors<V> left(operation, a), right(operation, b);
  for (unsigned r = 0; r < 8; r++) {
    float sum = sums[r];
    for (unsigned k = 0; k < 16; k++)
      sum = __builtin_fmaf(calor_number(left.template element<E>(2 * r + lane / 16, k)),
                           calor_number(right.template element<E>(lane, k)), sum);
    sums[r] = sum;
  }
  return sums;
}
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) calor_wmma<_Float16>("wmma", a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) calor_wmma<short>("wmma", a, b, c)

// Runs a kernel with arguments from cells; braces have them read in their order.
template <class... A> struct CalorCall {
  CalorCall(void (*kernel)(A...), A... a) { kernel(a...); }
};
template <class... A> constexpr unsigned calor_count(void (*)(A...)) { return sizeof...(A); }
template <class... A> inline void calor_call(void (*kernel)(A...), const char *cells) {
  CalorCall<A...>{kernel, *(const A *)((cells += 8) - 8)...};
}
