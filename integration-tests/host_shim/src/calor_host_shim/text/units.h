// What kernels of every language use of the runtime in units.cpp: where a unit is, and how it
// meets the others of its plane or cube.
#pragma once

struct Place {
  unsigned cube[3], cubes[3], unit[3], units[3];
  unsigned index;  // of the unit in its cube, x fastest
};

extern "C" {
// The unit that runs.
extern const Place *calor_place;
// Units in lock step.
extern unsigned calor_plane;
// Waits for all units of the plane or of the cube; they all say the same operation.
void calor_meet_plane(const char *operation);
void calor_meet_cube(const char *operation);
// Hands a value of up to 16 bytes to the plane, waits for all, and returns the values of its units,
// 16 bytes apart; they stay until the unit meets its plane the next time.
const unsigned char *calor_exchange(const char *operation, const void *value, unsigned bytes);
// The number of units in this unit's plane.
unsigned calor_plane_size(void);
}
