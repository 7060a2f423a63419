; RUN: once
; A helper allocates, launches with a buffer of its caller's, and frees: its buffer is part of the caller's task, and alone
; it has none.
; REMARK: static task in f: 2 allocations, 8 + 16 bytes, 2 launch sites
; CHECK-LABEL: define internal void @components(
; CHECK-NOT: eager_task
; CHECK: ret void
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
; CHECK: call void @components(
define internal void @components(ptr %to) noinline {
  %s = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %s, i64 16)
  %from = load ptr, ptr %s
  call void @_Z17__device_stub__k2PfS_(ptr %to, ptr %from)
  %2 = call i32 @cudaFree(ptr %from)
  ret void
}
define void @f() {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @components(ptr %p)
  call void @_Z16__device_stub__kPf(ptr %p)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
