; RUN: once
; A kernel may never use one of its arguments: the host code cannot know, so both buffers belong to the task and count.
; REMARK: static task in f: 2 allocations, 8 + 16 bytes
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
define void @f() {
  %a = alloca ptr
  %b = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %2 = call i32 @cudaMalloc(ptr %b, i64 16)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z17__device_stub__k2PfS_(ptr %pa, ptr %pb)
  %3 = call i32 @cudaFree(ptr %pa)
  %4 = call i32 @cudaFree(ptr %pb)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
