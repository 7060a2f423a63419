; RUN: once
; A size in a global is read again at the begin, since only runtime calls run in between.
; REMARK: static task in f: 2 allocations
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin
; CHECK: call i32 @eager_cudaMalloc
@n = internal global i64 8
define void @f() {
  %a = alloca [2 x ptr]
  %b = getelementptr ptr, ptr %a, i64 1
  %n1 = load i64, ptr @n
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n1)
  %n2 = load i64, ptr @n
  %2 = call i32 @cudaMalloc(ptr %b, i64 %n2)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z17__device_stub__k2PfS_(ptr %pa, ptr %pb)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
