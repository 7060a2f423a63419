; RUN: twice
; The second run finds the first one's version reference and does nothing.
; CHECK-LABEL: define void @f(
; CHECK-COUNT-1: call void @eager_task_begin
; CHECK-NOT: eager_task_begin
; CHECK: declare i32 @eager_cudaMalloc
define void @f() {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
