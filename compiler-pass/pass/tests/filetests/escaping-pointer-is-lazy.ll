; RUN: once
; Unknown code gets the device pointer: it may launch or free, so the task is left to run time.
; REMARK: lazy task in f: a device pointer is passed to unknown
; CHECK-LABEL: define void @f(
; CHECK-NOT: eager_task_begin
; CHECK: ret void
declare void @unknown(ptr)
define void @f() {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  call void @unknown(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
