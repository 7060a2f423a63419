; RUN: once
; A helper that other sources may call allocates, launches with its caller's buffer, and frees: its buffer belongs to the
; caller's task, the helper itself declares it dead, and the report says both.
; REMARK: no task of its own in components: covered by the task in main; called from elsewhere it runs lazily
; CHECK-LABEL: define void @components(
; CHECK-NOT: eager_task
; CHECK: call void @_Z17__device_stub__k2PfS_(ptr %to, ptr %from)
; CHECK-NEXT: %[[DEAD:.*]] = load ptr, ptr %eager.buffer
; CHECK-NEXT: call void @eager_buffer_dead(ptr %[[DEAD]])
; CHECK-LABEL: define i32 @main(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
; CHECK: call void @components(
define void @components(ptr %to) noinline {
  %s = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %s, i64 16)
  %from = load ptr, ptr %s
  call void @_Z17__device_stub__k2PfS_(ptr %to, ptr %from)
  call void @host_work()
  %2 = call i32 @cudaFree(ptr %from)
  ret void
}
define i32 @main() {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @components(ptr %p)
  %2 = call i32 @cudaFree(ptr %p)
  ret i32 0
}
define internal void @host_work() {
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)

declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

!eager.kernels = !{!0}
!0 = !{!"{\22version\22:2,\22kernels\22:[{\22name\22:\22_Z2k2PfS_\22,\22arguments\22:[],\22keeps_pointers\22:false,\22keeps_contents\22:false,\22pointers\22:2}]}"}
