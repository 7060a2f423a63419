; RUN: once
; The program chooses its device itself and asks which one it has. Both questions go to the shim, which answers for the
; device that the scheduler chose; neither belongs to the task.
; REMARK: static task in f: 1 allocation, [argument 2] bytes
; CHECK-LABEL: define i32 @f(
; CHECK: call i32 @eager_cudaSetDevice(i32 %device)
; CHECK-NEXT: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 %n, i64 %n,
; CHECK-NEXT: call i32 @eager_cudaMalloc
; CHECK-NEXT: call i32 @eager_cudaGetDevice(ptr %d)
declare i32 @cudaSetDevice(i32)
declare i32 @cudaGetDevice(ptr)
define i32 @f(i32 %device, i64 %n) {
  %a = alloca ptr
  %d = alloca i32
  %1 = call i32 @cudaSetDevice(i32 %device)
  %2 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %3 = call i32 @cudaGetDevice(ptr %d)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %4 = call i32 @cudaFree(ptr %p)
  %5 = load i32, ptr %d
  ret i32 %5
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
