; ModuleID = '__compute_module'
source_filename = "__compute_module"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

%SE_HOST_KernelCallFrame = type { ptr, ptr, i64, ptr }
%SE_HOST_KernelThreadDim = type { i64, i64, i64 }
%SE_HOST_KernelThread = type { i64, i64, i64 }
%SE_HOST_KernelArg = type { ptr, i64 }

; Function Attrs: uwtable
define ptr @add.2(ptr %0) #0 {
  %add.2.invar_address.dim.0 = alloca i64, align 8
  %tdims_gep = getelementptr inbounds nuw %SE_HOST_KernelCallFrame, ptr %0, i32 0, i32 0
  %tdims = load ptr, ptr %tdims_gep, align 8
  %tdim_x_gep = getelementptr inbounds nuw %SE_HOST_KernelThreadDim, ptr %tdims, i32 0, i32 0
  %tdim_y_gep = getelementptr inbounds nuw %SE_HOST_KernelThreadDim, ptr %tdims, i32 0, i32 1
  %tdim_z_gep = getelementptr inbounds nuw %SE_HOST_KernelThreadDim, ptr %tdims, i32 0, i32 2
  %tdim_x = load i64, ptr %tdim_x_gep, align 8
  %tdim_y = load i64, ptr %tdim_y_gep, align 8
  %tdim_z = load i64, ptr %tdim_z_gep, align 8
  %tid_gep = getelementptr inbounds nuw %SE_HOST_KernelCallFrame, ptr %0, i32 0, i32 1
  %tids = load ptr, ptr %tid_gep, align 8
  %tid_x_gep = getelementptr inbounds nuw %SE_HOST_KernelThread, ptr %tids, i32 0, i32 0
  %tid_y_gep = getelementptr inbounds nuw %SE_HOST_KernelThread, ptr %tids, i32 0, i32 1
  %tid_z_gep = getelementptr inbounds nuw %SE_HOST_KernelThread, ptr %tids, i32 0, i32 2
  %tid_x = load i64, ptr %tid_x_gep, align 8
  %tid_y = load i64, ptr %tid_y_gep, align 8
  %tid_z = load i64, ptr %tid_z_gep, align 8
  %args_gep = getelementptr inbounds nuw %SE_HOST_KernelCallFrame, ptr %0, i32 0, i32 3
  %args = load ptr, ptr %args_gep, align 8
  %arg0_gep = getelementptr %SE_HOST_KernelArg, ptr %args, i32 0, i32 0
  %arg0 = load ptr, ptr %arg0_gep, align 8, !invariant.load !0, !dereferenceable !1, !align !2
  %args_gep1 = getelementptr inbounds nuw %SE_HOST_KernelCallFrame, ptr %0, i32 0, i32 3
  %args2 = load ptr, ptr %args_gep1, align 8
  %arg1_gep = getelementptr %SE_HOST_KernelArg, ptr %args2, i32 1, i32 0
  %arg1 = load ptr, ptr %arg1_gep, align 8, !invariant.load !0, !dereferenceable !1, !align !2
  %args_gep3 = getelementptr inbounds nuw %SE_HOST_KernelCallFrame, ptr %0, i32 0, i32 3
  %args4 = load ptr, ptr %args_gep3, align 8
  %arg2_gep = getelementptr %SE_HOST_KernelArg, ptr %args4, i32 2, i32 0
  %arg2 = load ptr, ptr %arg2_gep, align 8, !invariant.load !0, !dereferenceable !1, !align !2
  store i64 0, ptr %add.2.invar_address.dim.0, align 8
  br label %add.2.loop_header.dim.0

add.2.loop_header.dim.0:                          ; preds = %add.2.loop_body.dim.0, %1
  %add.2.indvar.dim.0 = load i64, ptr %add.2.invar_address.dim.0, align 8
  %2 = icmp uge i64 %add.2.indvar.dim.0, 2
  br i1 %2, label %add.2.loop_exit.dim.0, label %add.2.loop_body.dim.0

add.2.loop_body.dim.0:                            ; preds = %add.2.loop_header.dim.0
  %3 = getelementptr inbounds [2 x double], ptr %arg1, i64 0, i64 %add.2.indvar.dim.0
  %4 = load double, ptr %3, align 8, !invariant.load !0, !noalias !3
  %5 = getelementptr inbounds [2 x double], ptr %arg1, i64 0, i64 %add.2.indvar.dim.0
  %6 = load double, ptr %5, align 8, !invariant.load !0, !noalias !3
  %add.2 = fadd double %4, %6
  %7 = getelementptr inbounds [2 x double], ptr %arg2, i64 0, i64 %add.2.indvar.dim.0
  store double %add.2, ptr %7, align 8, !alias.scope !3
  %invar.inc = add nuw nsw i64 %add.2.indvar.dim.0, 1
  store i64 %invar.inc, ptr %add.2.invar_address.dim.0, align 8
  br label %add.2.loop_header.dim.0

add.2.loop_exit.dim.0:                            ; preds = %add.2.loop_header.dim.0
  br label %return

return:                                           ; preds = %add.2.loop_exit.dim.0
  ret ptr null
}

attributes #0 = { uwtable "frame-pointer"="all" "prefer-vector-width"="256" }

!0 = !{}
!1 = !{i64 16}
!2 = !{i64 64}
!3 = !{!4}
!4 = !{!"result slice: {index:0, offset:0, size:16}", !5}
!5 = !{!"XLA host kernel add.2 AA domain"}
