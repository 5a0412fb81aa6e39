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
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;

@compute @workgroup_size(1, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) unit: vec3<u32>) {
  let cubes = vec3<u32>(args.cubes_x, args.cubes_y, args.cubes_z);
  var cube = group;
  if (cubes.x > 65535u) {
    cube.x += group.y / cubes.y * 65535u;
    cube.y = group.y % cubes.y;
    if (cube.x >= cubes.x) { return; }
  }
  let n = args.a3;
  let k = args.a4;
  let a_offset = args.a0;
  let b_offset = args.a1;
  let c_offset = args.a2;
  let t1: vec4<f32> = vec4<f32>(0.0f, 0.0f, 0.0f, 0.0f);
  let t2: i64 = i64(u64(cube.x)) * 2li;
  let t3: i64 = i64(u64(cube.y)) * 4li;
  let t4: i64 = t2 * k;
  let t5: i64 = t2 + 1li;
  let t6: i64 = t5 * k;
  var item: vec4<f32> = t1;
  var item_1: vec4<f32> = t1;
  for (var i: i64 = 0li; i < k; i++) {
    let b_: vec4<f32> = b[(b_offset + u32(i * n + t3)) >> 2u];
    let a_: f32 = a[a_offset + u32(t4 + i)];
    let t7: vec4<f32> = vec4<f32>(a_, a_, a_, a_);
    let t8: vec4<f32> = vec4<f32>(fma(t7.x, b_.x, item.x), fma(t7.y, b_.y, item.y), fma(t7.z, b_.z, item.z), fma(t7.w, b_.w, item.w));
    let a_1: f32 = a[a_offset + u32(t6 + i)];
    let t9: vec4<f32> = vec4<f32>(a_1, a_1, a_1, a_1);
    let t10: vec4<f32> = vec4<f32>(fma(t9.x, b_.x, item_1.x), fma(t9.y, b_.y, item_1.y), fma(t9.z, b_.z, item_1.z), fma(t9.w, b_.w, item_1.w));
    item = t8;
    item_1 = t10;
  }
  c[(c_offset + u32(t2 * n + t3)) >> 2u] = item;
  c[(c_offset + u32(t5 * n + t3)) >> 2u] = item_1;
}
