#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#pragma STDC FP_CONTRACT OFF

static void product_cube(
    const float *restrict a,
    const float *restrict b,
    float *c,
    int64_t n,
    int64_t k,
    int64_t cube_x,
    int64_t cube_y) {
  int64_t t1 = cube_x * 2;
  int64_t t2 = cube_y * 4;
  int64_t t3 = t1 * k;
  int64_t t4 = t1 + 1;
  int64_t t5 = t4 * k;
  float item = 0.0f;
  float item_1 = 0.0f;
  float item_2 = 0.0f;
  float item_3 = 0.0f;
  float item_4 = 0.0f;
  float item_5 = 0.0f;
  float item_6 = 0.0f;
  float item_7 = 0.0f;
  for (int64_t i = 0; i < k; i++) {
    int64_t t6 = i * n + t2;
    float b_ = b[t6];
    float b_1 = b[t6 + 1];
    float b_2 = b[t6 + 2];
    float b_3 = b[t6 + 3];
    float a_ = a[t3 + i];
    float a_1 = a[t5 + i];
    item = fmaf(a_, b_, item);
    item_1 = fmaf(a_, b_1, item_1);
    item_2 = fmaf(a_, b_2, item_2);
    item_3 = fmaf(a_, b_3, item_3);
    item_4 = fmaf(a_1, b_, item_4);
    item_5 = fmaf(a_1, b_1, item_5);
    item_6 = fmaf(a_1, b_2, item_6);
    item_7 = fmaf(a_1, b_3, item_7);
  }
  int64_t t7 = t1 * n + t2;
  c[t7] = item;
  c[t7 + 1] = item_1;
  c[t7 + 2] = item_2;
  c[t7 + 3] = item_3;
  int64_t t8 = t4 * n + t2;
  c[t8] = item_4;
  c[t8 + 1] = item_5;
  c[t8 + 2] = item_6;
  c[t8 + 3] = item_7;
}

void product(const int64_t *slots, int64_t begin, int64_t end) {
  const float *restrict a = (const float *)(intptr_t)slots[0];
  const float *restrict b = (const float *)(intptr_t)slots[1];
  float *c = (float *)(intptr_t)slots[2];
  int64_t n = (uint64_t)slots[3];
  int64_t k = (uint64_t)slots[4];
  int64_t cubes_x = slots[5];
  int64_t cubes_y = slots[6];
  for (int64_t index = begin; index < end; index++) {
    product_cube(a, b, c, n, k, index % cubes_x, index / cubes_x % cubes_y);
  }
}
