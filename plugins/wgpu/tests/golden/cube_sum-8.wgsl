struct Arguments {
  a0: u32,
  a1: u32,
  a2: i64,
  cubes_x: u32,
  cubes_y: u32,
  cubes_z: u32,
  zero: u32,
}
@group(0) @binding(0) var<uniform> args: Arguments;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
var<workgroup> shared0: array<f32, 8>;

@compute @workgroup_size(8, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) unit: vec3<u32>) {
  let cubes = vec3<u32>(args.cubes_x, args.cubes_y, args.cubes_z);
  var cube = group;
  if (cubes.x > 65535u) {
    cube.x += group.y / cubes.y * 65535u;
    cube.y = group.y % cubes.y;
    if (cube.x >= cubes.x) { return; }
  }
  let x_offset = args.a0;
  let y_offset = args.a1;
  let n = args.a2;
  var private1: array<f32, 4>;
  var unit_x: i64 = i64(u64(unit.x));
  var t1: i64 = i64(u64(cube.x)) * 8li + unit_x;
  var t2: i64 = t1 * 4li;
  var t3: bool = t2 < n;
  var x_: f32 = 0.0f;
  if (t3) { x_ = x[x_offset + u32(t2)]; }
  private1[0u] = x_;
  var t4: i64 = t2 + 1li;
  var t5: bool = t4 < n;
  var x_1: f32 = 0.0f;
  if (t5) { x_1 = x[x_offset + u32(t4)]; }
  private1[1u] = x_1;
  var t6: i64 = t2 + 2li;
  var t7: bool = t6 < n;
  var x_2: f32 = 0.0f;
  if (t7) { x_2 = x[x_offset + u32(t6)]; }
  private1[2u] = x_2;
  var t8: i64 = t2 + 3li;
  var t9: bool = t8 < n;
  var x_3: f32 = 0.0f;
  if (t9) { x_3 = x[x_offset + u32(t8)]; }
  private1[3u] = x_3;
  var total: f32 = private1[0u];
  for (var i: i64 = 1li; i < 4li; i += 1li) {
    total = total + private1[u32(i)];
  }
  shared0[u32(unit_x)] = total;
  workgroupBarrier();
  if (unit_x < 4li) {
    shared0[u32(unit_x)] = shared0[u32(unit_x)] + shared0[u32(unit_x + 4li)];
  }
  workgroupBarrier();
  if (unit_x < 2li) {
    shared0[u32(unit_x)] = shared0[u32(unit_x)] + shared0[u32(unit_x + 2li)];
  }
  workgroupBarrier();
  if (unit_x < 1li) {
    shared0[u32(unit_x)] = shared0[u32(unit_x)] + shared0[u32(unit_x + 1li)];
  }
  workgroupBarrier();
  if (unit_x == 0li) {
    y[y_offset + u32(t1 >> 3u)] = shared0[0u];
  }
}
