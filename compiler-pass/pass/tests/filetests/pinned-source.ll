; RUN: once
; Page-locked host memory is the source of a copy: it is host memory, so it counts nothing, and may be made before the
; task begins and go after it has ended.
; REMARK: static task in f: 1 allocation, [argument 1] bytes
; CHECK-LABEL: define void @f(
; CHECK: call i32 @eager_cudaMallocHost(ptr %h, i64 4096)
; CHECK-NEXT: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 %n, i64 %n,
; CHECK: call i32 @eager_cudaMemcpy(ptr %to, ptr %from,
; CHECK: call void @eager_task_end
; CHECK-NEXT: call i32 @eager_cudaFreeHost(ptr %from)
declare i32 @cudaMallocHost(ptr, i64)
declare i32 @cudaFreeHost(ptr)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
define void @f(i64 %n) {
  %h = alloca ptr
  %a = alloca ptr
  %1 = call i32 @cudaMallocHost(ptr %h, i64 4096)
  %2 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %from = load ptr, ptr %h
  %to = load ptr, ptr %a
  %3 = call i32 @cudaMemcpy(ptr %to, ptr %from, i64 %n, i32 1)
  call void @_Z16__device_stub__kPf(ptr %to)
  %4 = call i32 @cudaFree(ptr %to)
  %5 = call i32 @cudaFreeHost(ptr %from)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
