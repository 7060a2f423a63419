; RUN: once
; A path into exit() gets no end, and does not make the size an upper bound.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK: bad:
; CHECK-NEXT: call void @exit
; CHECK-NEXT: unreachable
; CHECK: good:
; CHECK: call i32 @eager_cudaFree
; CHECK-NEXT: call void @eager_task_end
define void @f() {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %ok = icmp eq i32 %e, 0
  br i1 %ok, label %good, label %bad
bad:
  call void @exit(i32 1)
  unreachable
good:
  %p = load ptr, ptr %a
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
