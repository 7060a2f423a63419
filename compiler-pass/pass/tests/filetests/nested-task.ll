; RUN: once
; A called function has a task of its own: the caller's requirement includes it and its row says so.
; REMARK: static task in f: 1 allocation, 8 + 16 bytes
; REMARK: static task in helper: 1 allocation, 16 bytes
; CHECK: @eager.covered = private constant [1 x i64] [i64 [[INNER:-?[0-9]+]]]
; CHECK-LABEL: define void @helper(
; CHECK: call void @eager_task_begin(i64 [[INNER]], i64 16, i64 16,
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
define void @helper() {
  %t = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %t, i64 16)
  %p = load ptr, ptr %t
  call void @_Z16__device_stub__kPf(ptr %p)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
define void @f() {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  call void @helper()
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
