; RUN: once
; A stream belongs to one device, so the task begins before the stream is made.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin
; CHECK-NEXT: call i32 @eager_cudaStreamCreate(ptr %s)
declare i32 @cudaStreamCreate(ptr)
declare i32 @cudaStreamDestroy(ptr)
define void @f() {
  %a = alloca ptr
  %s = alloca ptr
  %1 = call i32 @cudaStreamCreate(ptr %s)
  %2 = call i32 @cudaMalloc(ptr %a, i64 8)
  %stream = load ptr, ptr %s
  %c = call i32 @__cudaPushCallConfiguration(i64 1, i32 1, i64 256, i32 1, i64 0, ptr %stream)
  %skip = icmp ne i32 %c, 0
  br i1 %skip, label %next, label %launch
launch:
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  br label %next
next:
  %q = load ptr, ptr %a
  %3 = call i32 @cudaFree(ptr %q)
  %t = load ptr, ptr %s
  %4 = call i32 @cudaStreamDestroy(ptr %t)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
