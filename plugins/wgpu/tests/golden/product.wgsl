struct Arguments {
  a0: u32,
  a1: u32,
  a2: u32,
  a3: i64,
  a4: i64,
  cubes_x: u32,
  cubes_y: u32,
  cubes_z: u32,
  zero: u32,
}
@group(0) @binding(0) var<uniform> args: Arguments;
@group(0) @binding(1) var<storage, read_write> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

@compute @workgroup_size(1, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) unit: vec3<u32>) {
  let cubes = vec3<u32>(args.cubes_x, args.cubes_y, args.cubes_z);
  let cube = vec3<u32>(group.x + group.y / cubes.y * 65535u, group.y % cubes.y, group.z);
  if (cube.x >= cubes.x) { return; }
  let a_offset = args.a0;
  let b_offset = args.a1;
  let c_offset = args.a2;
  let n = args.a3;
  let k = args.a4;
  var t1: i64 = i64(u64(cube.x)) * 2li;
  var t2: i64 = i64(u64(cube.y)) * 4li;
  var t3: i64 = t1 * k;
  var t4: i64 = t1 + 1li;
  var t5: i64 = t4 * k;
  var item: f32 = 0.0f;
  var item_1: f32 = 0.0f;
  var item_2: f32 = 0.0f;
  var item_3: f32 = 0.0f;
  var item_4: f32 = 0.0f;
  var item_5: f32 = 0.0f;
  var item_6: f32 = 0.0f;
  var item_7: f32 = 0.0f;
  for (var i: i64 = 0li; i < k; i += 1li) {
    var t6: i64 = i * n + t2;
    var b_: f32 = b[b_offset + u32(t6)];
    var b_1: f32 = b[b_offset + u32(t6 + 1li)];
    var b_2: f32 = b[b_offset + u32(t6 + 2li)];
    var b_3: f32 = b[b_offset + u32(t6 + 3li)];
    var a_: f32 = a[a_offset + u32(t3 + i)];
    var a_1: f32 = a[a_offset + u32(t5 + i)];
    item = fma(a_, b_, item);
    item_1 = fma(a_, b_1, item_1);
    item_2 = fma(a_, b_2, item_2);
    item_3 = fma(a_, b_3, item_3);
    item_4 = fma(a_1, b_, item_4);
    item_5 = fma(a_1, b_1, item_5);
    item_6 = fma(a_1, b_2, item_6);
    item_7 = fma(a_1, b_3, item_7);
  }
  var t7: i64 = t1 * n + t2;
  c[c_offset + u32(t7)] = item;
  c[c_offset + u32(t7 + 1li)] = item_1;
  c[c_offset + u32(t7 + 2li)] = item_2;
  c[c_offset + u32(t7 + 3li)] = item_3;
  var t8: i64 = t4 * n + t2;
  c[c_offset + u32(t8)] = item_4;
  c[c_offset + u32(t8 + 1li)] = item_5;
  c[c_offset + u32(t8 + 2li)] = item_6;
  c[c_offset + u32(t8 + 3li)] = item_7;
}
