#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#pragma STDC FP_CONTRACT OFF

static void flow_cube(float *x, float *y, int64_t *z, int64_t n) {
  int64_t a = 1;
  int64_t b = 2;
  float total = 0.0f;
  for (int64_t i = 0; i < n; i++) {
    float t1;
    if (x[i] > 0.0f) {
      float t2 = total + x[i];
      t1 = x[i] > 2.0f ? t2 * 0.5f : t2;
    } else {
      y[i] = total;
      t1 = total;
    }
    float x_ = x[i];
    x[i] = x_ + 1.0f;
    y[i] = y[i] + x_;
    int64_t b_next = (int64_t)((uint64_t)a + b);
    a = b;
    b = b_next;
    total = t1;
  }
  for (int64_t i_1 = (int64_t)((uint64_t)n - 1); i_1 > -1; i_1 += -2) {
    z[i_1] = (int64_t)((uint64_t)a + i_1);
  }
  int64_t a_1 = a;
  int64_t count = 0;
  while (a_1 > 3 && count < 100) {
    a_1 = (a_1 & 1) == 0 ? a_1 >> 1 : (int64_t)((uint64_t)3 * a_1 + 1);
    count = (int64_t)((uint64_t)count + 1);
  }
  z[0] = count;
  z[1] = b;
  y[0] = total;
}

void flow(const int64_t *slots, int64_t begin, int64_t end) {
  float *x = (float *)(intptr_t)slots[0];
  float *y = (float *)(intptr_t)slots[1];
  int64_t *z = (int64_t *)(intptr_t)slots[2];
  int64_t n = (uint64_t)slots[3];
  for (int64_t index = begin; index < end; index++) {
    flow_cube(x, y, z, n);
  }
}
