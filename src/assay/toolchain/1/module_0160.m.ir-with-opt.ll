; ModuleID = '__compute_module'
source_filename = "__compute_module"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) uwtable
define noalias noundef ptr @add.2(ptr nocapture readonly %0) local_unnamed_addr #0 {
add.2.loop_body.dim.0:
  %args_gep = getelementptr inbounds nuw i8, ptr %0, i64 24
  %args = load ptr, ptr %args_gep, align 8
  %arg1_gep = getelementptr i8, ptr %args, i64 16
  %arg1 = load ptr, ptr %arg1_gep, align 8, !invariant.load !0, !dereferenceable !1, !align !2
  %arg2_gep = getelementptr i8, ptr %args, i64 32
  %arg2 = load ptr, ptr %arg2_gep, align 8, !invariant.load !0, !dereferenceable !1, !align !2
  %1 = load <2 x double>, ptr %arg1, align 64, !invariant.load !0, !noalias !3
  %2 = fadd <2 x double> %1, %1
  store <2 x double> %2, ptr %arg2, align 64, !alias.scope !3
  ret ptr null
}

attributes #0 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) uwtable "frame-pointer"="all" "prefer-vector-width"="256" }

!0 = !{}
!1 = !{i64 16}
!2 = !{i64 64}
!3 = !{!4}
!4 = !{!"result slice: {index:0, offset:0, size:16}", !5}
!5 = !{!"XLA host kernel add.2 AA domain"}
