; ModuleID = '__compute_module'
source_filename = "__compute_module"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) uwtable
define void @main.3(ptr nocapture readnone %retval, ptr noalias nocapture readnone %run_options, ptr noalias nocapture readnone %params, ptr noalias nocapture readonly %buffer_table, ptr noalias nocapture readnone %status, ptr noalias nocapture readnone %prof_counters) local_unnamed_addr #0 {
entry:
  %0 = getelementptr inbounds i8, ptr %buffer_table, i64 8
  %Arg_0.1 = load ptr, ptr %0, align 8, !invariant.load !0, !dereferenceable !1, !align !1
  %add.2 = load ptr, ptr %buffer_table, align 8, !invariant.load !0, !dereferenceable !1, !align !1
  %1 = load <2 x double>, ptr %Arg_0.1, align 16, !invariant.load !0, !noalias !2
  %2 = fadd <2 x double> %1, %1
  store <2 x double> %2, ptr %add.2, align 16, !alias.scope !2
  ret void
}

attributes #0 = { nofree norecurse nosync nounwind memory(readwrite, inaccessiblemem: none) uwtable "denormal-fp-math"="preserve-sign" "no-frame-pointer-elim"="false" }

!0 = !{}
!1 = !{i64 16}
!2 = !{!3}
!3 = !{!"buffer: {index:0, offset:0, size:16}", !4}
!4 = !{!"XLA global AA domain"}
