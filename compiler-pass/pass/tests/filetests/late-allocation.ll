; RUN: once
; An allocation after the first kernel belongs to the same task when a later kernel uses both.
; REMARK: static task in f: 2 allocations, 8 + 16 bytes, 2 launch sites
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24, i64 0, i32 0)
; CHECK-NOT: eager_task_begin
; CHECK: call void @eager_task_end
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)
define void @f() {
  %a = alloca ptr
  %b = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %pa = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %pa)
  %2 = call i32 @cudaMalloc(ptr %b, i64 16)
  %pb = load ptr, ptr %b
  %pa2 = load ptr, ptr %a
  call void @_Z17__device_stub__k2PfS_(ptr %pa2, ptr %pb)
  %3 = call i32 @cudaFree(ptr %pa2)
  %4 = call i32 @cudaFree(ptr %pb)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
