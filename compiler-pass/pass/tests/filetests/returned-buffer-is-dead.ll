; RUN: once
; A helper returns the pointer that it allocated: its caller declares the buffer dead behind the last use. What a failed
; allocation would leave in the helper's variable is null.
; CHECK-LABEL: define internal ptr @make(
; CHECK: store ptr null, ptr %slot
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %slot, i64 %n)
; CHECK-LABEL: define i32 @main(
; CHECK: %p = call ptr @make(i64 8)
; CHECK-NEXT: store ptr %p, ptr %eager.buffer
; CHECK: call void @_Z16__device_stub__kPf(ptr %p)
; CHECK-NEXT: %[[DEAD:.*]] = load ptr, ptr %eager.buffer
; CHECK-NEXT: call void @eager_buffer_dead(ptr %[[DEAD]])
; CHECK: call i32 @eager_cudaFree
define internal ptr @make(i64 %n) {
  %slot = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %slot, i64 %n)
  %p = load ptr, ptr %slot
  ret ptr %p
}
define i32 @main() {
  %p = call ptr @make(i64 8)
  call void @_Z16__device_stub__kPf(ptr %p)
  call void @host_work()
  %1 = call i32 @cudaFree(ptr %p)
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

declare void @_Z16__device_stub__kPf(ptr)

!eager.kernels = !{!0}
!0 = !{!"{\22version\22:2,\22kernels\22:[{\22name\22:\22_Z1kPf\22,\22arguments\22:[],\22keeps_pointers\22:false,\22keeps_contents\22:false,\22pointers\22:1}]}"}
