source_filename = "scale"
target triple = "x86_64-unknown-linux-gnu"

define void @scale(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {
entry:
  %slot1 = getelementptr i8, ptr %args, i64 0
  %v2 = load ptr, ptr %slot1, align 8, !invariant.load !1
  %slot3 = getelementptr i8, ptr %args, i64 8
  %v4 = load ptr, ptr %slot3, align 8, !invariant.load !1
  %slot5 = getelementptr i8, ptr %args, i64 16
  %v6 = load i64, ptr %slot5, align 8, !invariant.load !1
  %slot7 = getelementptr i8, ptr %args, i64 24
  %count8 = load i64, ptr %slot7, align 8, !invariant.load !1
  %v9 = icmp slt i64 %begin, %end
  br i1 %v9, label %start, label %done
start:
  %v10 = icmp eq i64 %begin, 0
  br i1 %v10, label %placed, label %divide
divide:
  %v11 = urem i64 %begin, %count8
  br label %placed
placed:
  %v12 = phi i64 [ 0, %start ], [ %v11, %divide ]
  br label %cube
cube:
  %cube.number = phi i64 [ %begin, %placed ], [ %v25, %after17 ]
  %x = phi i64 [ %v12, %placed ], [ %v24, %after17 ]
  %v13 = mul i64 %x, 4
  %v14 = icmp slt i64 %v13, %v6
  br i1 %v14, label %then15, label %after17
then15:
  %p18 = getelementptr float, ptr %v2, i64 %v13
  %v19 = load <4 x float>, ptr %p18, align 4, !invariant.load !1
  %v20 = fmul contract <4 x float> %v19, splat (float 0x4000000000000000)
  %p21 = getelementptr float, ptr %v4, i64 %v13
  store <4 x float> %v20, ptr %p21, align 4
  br label %after17
after17:
  %v22 = add i64 %x, 1
  %v23 = icmp eq i64 %v22, %count8
  %v24 = select i1 %v23, i64 0, i64 %v22
  %v25 = add nsw i64 %cube.number, 1
  %v26 = icmp slt i64 %v25, %end
  br i1 %v26, label %cube, label %done
done:
  ret void
}


attributes #0 = { nounwind "stackrealign" "prefer-vector-width"="512" "frame-pointer"="none" }
!0 = !{i32 1}
!1 = !{}
