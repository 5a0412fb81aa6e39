#version 460
// The least kernel: it adds one to a value. WAITS: it awaits the dispatch before it by a counter.
// STAYS: its cubes await each other as often as dispatches would be.
layout(local_size_x = 32) in;
layout(std430, binding = 0) coherent buffer Values { uint values[]; };
layout(push_constant) uniform Numbers { uint number; };

void await(uint count) {
  if (gl_LocalInvocationIndex == 0) {
    while (atomicAdd(values[64], 0u) < count) {}
    memoryBarrierBuffer();
  }
  barrier();
}

void arrive() {
  barrier();
  if (gl_LocalInvocationIndex == 0) {
    memoryBarrierBuffer();
    atomicAdd(values[64], 1u);
  }
}

void main() {
#ifdef STAYS
  for (uint turn = 1u; turn <= number; ++turn) {
    if (gl_GlobalInvocationID.x == 0) values[0] += 1u;
    arrive();
    await(gl_NumWorkGroups.x * turn);
  }
#else
#ifdef WAITS
  await(gl_NumWorkGroups.x * number);
#endif
  if (gl_GlobalInvocationID.x == 0) values[0] += 1u;
#ifdef WAITS
  arrive();
#endif
#endif
}
