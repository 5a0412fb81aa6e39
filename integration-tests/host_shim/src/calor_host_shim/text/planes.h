// What texts of every language use to hand values around a plane.
#pragma once
#include "units.h"

inline unsigned calor_lane() { return calor_place->index % calor_plane; }

// The value of another lane; the lane's own where there is no other.
template <class T> inline T calor_shuffled(const char *operation, T x, unsigned lane) {
  const unsigned char *all = calor_exchange(operation, &x, sizeof x);
  if (lane < calor_plane_size()) __builtin_memcpy(&x, all + 16 * lane, sizeof x);
  return x;
}

// A bit for each lane.
inline unsigned long calor_votes(const char *operation, bool x) {
  const unsigned char *all = calor_exchange(operation, &x, sizeof x);
  unsigned long votes = 0;
  for (unsigned i = 0; i < calor_plane_size(); i++) votes |= (unsigned long)all[16 * i] << i;
  return votes;
}
