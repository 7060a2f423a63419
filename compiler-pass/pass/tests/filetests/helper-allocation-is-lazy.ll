; RUN: once
; The buffer comes from another function: nothing static is inserted, only calls are renamed.
; REMARK: lazy task in f: a kernel gets a buffer that comes from the result of a call
; CHECK-LABEL: define void @f(
; CHECK-NOT: eager_task_begin
; CHECK: call i32 @eager_cudaFree
declare ptr @helper(i64)
define void @f() {
  %p = call ptr @helper(i64 8)
  %c = call i32 @__cudaPushCallConfiguration(i64 1, i32 1, i64 256, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPf(ptr %p)
  %1 = call i32 @cudaFree(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
