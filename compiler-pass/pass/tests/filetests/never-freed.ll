; RUN: once
; One of two buffers is never freed: the task lasts to the return, where the frame that knows it goes.
; REMARK: static task in f: 2 allocations, 8 + 16 bytes, 1 launch site; not all is freed, so it ends at the return
; CHECK-LABEL: define void @f(
; CHECK: call i32 @eager_cudaFree(ptr %pa)
; CHECK-NEXT: call void @host()
; CHECK-NEXT: call void @eager_task_end
; CHECK-NEXT: ret void
define void @f() {
  %a = alloca ptr
  %b = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %2 = call i32 @cudaMalloc(ptr %b, i64 16)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z17__device_stub__k2PfS_(ptr %pa, ptr %pb)
  %3 = call i32 @cudaFree(ptr %pa)
  call void @host()
  ret void
}
define internal void @host() noinline {
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
