; RUN: once
; Memory and launches of the driver interface are not scheduled: said once, and the module is left alone.
; REMARK: cuMemAlloc_v2 and 1 more: memory and kernels of CUDA's driver interface are neither counted nor scheduled
; CHECK: call i32 @cuMemAlloc_v2(
; CHECK: call i32 @cuLaunchKernel(
; CHECK-NOT: eager
define void @f(ptr %p) {
  %created = call i32 @cublasCreate_v2(ptr %p)
  %allocated = call i32 @cuMemAlloc_v2(ptr %p, i64 8)
  %launched = call i32 @cuLaunchKernel(ptr %p, i32 1, i32 1, i32 1, i32 1, i32 1, i32 1, i32 0, ptr null, ptr null, ptr null)
  ret void
}

declare i32 @cublasCreate_v2(ptr)
declare i32 @cuMemAlloc_v2(ptr, i64)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
