; RUN: once
; A helper allocates and returns the pointer, another frees it: the task is the caller's.
; REMARK: static task in f: 2 allocations
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(
; CHECK-NEXT: call ptr @make(i64 %n)
; CHECK: call void @drop(ptr %q)
; CHECK-NEXT: call void @eager_task_end
declare i32 @cudaMemset(ptr, i32, i64)
define internal ptr @make(i64 %n) {
  %slot = alloca ptr
  %bytes = mul i64 %n, 4
  %1 = call i32 @cudaMalloc(ptr %slot, i64 %bytes)
  %p = load ptr, ptr %slot
  %2 = call i32 @cudaMemset(ptr %p, i32 0, i64 %bytes)
  ret ptr %p
}
define internal void @drop(ptr %p) {
  %1 = call i32 @cudaMemset(ptr %p, i32 0, i64 4)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)
define void @f(i64 %n) {
  %p = call ptr @make(i64 %n)
  %q = call ptr @make(i64 8)
  call void @_Z17__device_stub__k2PfS_(ptr %p, ptr %q)
  call void @drop(ptr %p)
  call void @drop(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
