; ModuleID = '__compute_module'
source_filename = "__compute_module"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: uwtable
define void @main.3(ptr %retval, ptr noalias %run_options, ptr noalias %params, ptr noalias %buffer_table, ptr noalias %status, ptr noalias %prof_counters) #0 {
entry:
  %add.2.invar_address.dim.0 = alloca i64, align 8
  %0 = getelementptr inbounds ptr, ptr %buffer_table, i64 1
  %Arg_0.1 = load ptr, ptr %0, align 8, !invariant.load !0, !dereferenceable !1, !align !1
  %1 = getelementptr inbounds ptr, ptr %buffer_table, i64 0
  %add.2 = load ptr, ptr %1, align 8, !invariant.load !0, !dereferenceable !1, !align !1
  store i64 0, ptr %add.2.invar_address.dim.0, align 8
  br label %add.2.loop_header.dim.0

return:                                           ; preds = %add.2.loop_exit.dim.0
  ret void

add.2.loop_header.dim.0:                          ; preds = %add.2.loop_body.dim.0, %entry
  %add.2.indvar.dim.0 = load i64, ptr %add.2.invar_address.dim.0, align 8
  %2 = icmp uge i64 %add.2.indvar.dim.0, 2
  br i1 %2, label %add.2.loop_exit.dim.0, label %add.2.loop_body.dim.0

add.2.loop_body.dim.0:                            ; preds = %add.2.loop_header.dim.0
  %3 = getelementptr inbounds [2 x double], ptr %Arg_0.1, i64 0, i64 %add.2.indvar.dim.0
  %4 = load double, ptr %3, align 8, !invariant.load !0, !noalias !2
  %5 = getelementptr inbounds [2 x double], ptr %Arg_0.1, i64 0, i64 %add.2.indvar.dim.0
  %6 = load double, ptr %5, align 8, !invariant.load !0, !noalias !2
  %add.21 = fadd double %4, %6
  %7 = getelementptr inbounds [2 x double], ptr %add.2, i64 0, i64 %add.2.indvar.dim.0
  store double %add.21, ptr %7, align 8, !alias.scope !2
  %invar.inc = add nuw nsw i64 %add.2.indvar.dim.0, 1
  store i64 %invar.inc, ptr %add.2.invar_address.dim.0, align 8
  br label %add.2.loop_header.dim.0

add.2.loop_exit.dim.0:                            ; preds = %add.2.loop_header.dim.0
  br label %return
}

attributes #0 = { uwtable "denormal-fp-math"="preserve-sign" "no-frame-pointer-elim"="false" }

!0 = !{}
!1 = !{i64 16}
!2 = !{!3}
!3 = !{!"buffer: {index:0, offset:0, size:16}", !4}
!4 = !{!"XLA global AA domain"}
