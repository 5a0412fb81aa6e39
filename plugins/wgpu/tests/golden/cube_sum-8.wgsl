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
@group(0) @binding(1) var<storage, read> x: array<f32>;
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
  let n = args.a2;
  let x_offset = args.a0;
  let y_offset = args.a1;
  var private1: array<f32, 4>;
  let unit_x: i64 = i64(u64(unit.x));
  let t1: i64 = i64(u64(cube.x)) * 8li + unit_x;
  let t2: i64 = t1 * 4li;
  let t3: u32 = x_offset + u32(t2);
  var t4: f32;
  if (t2 < n) {
    let x_: f32 = x[t3];
    t4 = x_;
  } else {
    t4 = f32();
  }
  private1[0u] = t4;
  let t5: i64 = t2 + 1li;
  let t6: u32 = x_offset + u32(t5);
  var t7: f32;
  if (t5 < n) {
    let x_1: f32 = x[t6];
    t7 = x_1;
  } else {
    t7 = f32();
  }
  private1[1u] = t7;
  let t8: i64 = t2 + 2li;
  let t9: u32 = x_offset + u32(t8);
  var t10: f32;
  if (t8 < n) {
    let x_2: f32 = x[t9];
    t10 = x_2;
  } else {
    t10 = f32();
  }
  private1[2u] = t10;
  let t11: i64 = t2 + 3li;
  let t12: u32 = x_offset + u32(t11);
  var t13: f32;
  if (t11 < n) {
    let x_3: f32 = x[t12];
    t13 = x_3;
  } else {
    t13 = f32();
  }
  private1[3u] = t13;
  var total: f32 = private1[0u];
  for (var i: i64 = 1li; i < 4li; i++) {
    total = total + private1[u32(i)];
  }
  let t14: u32 = u32(unit_x);
  shared0[t14] = total;
  workgroupBarrier();
  if (unit_x < 4li) {
    shared0[t14] = shared0[t14] + shared0[u32(unit_x + 4li)];
  }
  workgroupBarrier();
  if (unit_x < 2li) {
    shared0[t14] = shared0[t14] + shared0[u32(unit_x + 2li)];
  }
  workgroupBarrier();
  if (unit_x < 1li) {
    shared0[t14] = shared0[t14] + shared0[u32(unit_x + 1li)];
  }
  workgroupBarrier();
  if (unit_x == 0li) {
    y[y_offset + u32(t1 >> 3u)] = shared0[0u];
  }
}
