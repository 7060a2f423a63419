; RUN: once
; A buffer is dead behind its last use: a kernel that keeps no pointer, or a copy out; the free comes later. What is shown
; of the buffers makes the live bytes smaller than the bytes: %a is not used any more when %b is used first.
; CHECK-LABEL: define i32 @main(
; CHECK: %eager.buffer = alloca ptr
; CHECK-NEXT: store ptr null, ptr %eager.buffer
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 16, i64 0, i32 0)
; CHECK: %[[ERROR:.*]] = call i32 @eager_cudaMalloc(ptr %a, i64 8)
; CHECK-NEXT: %[[MADE:.*]] = load ptr, ptr %a
; CHECK-NEXT: %[[IS_MADE:.*]] = icmp eq i32 %[[ERROR]], 0
; CHECK-NEXT: %[[BUFFER:.*]] = select i1 %[[IS_MADE]], ptr %[[MADE]], ptr null
; CHECK-NEXT: store ptr %[[BUFFER]], ptr %[[A:eager.buffer[0-9]*]]
; CHECK: call void @_Z16__device_stub__kPf(ptr %pa)
; CHECK-NEXT: %[[DEAD:.*]] = load ptr, ptr %[[A]]
; CHECK-NEXT: call void @eager_buffer_dead(ptr %[[DEAD]])
; CHECK: call void @_Z16__device_stub__kPf(ptr %pb)
; CHECK: call i32 @eager_cudaMemcpy
; CHECK-NEXT: load ptr, ptr %eager.buffer
; CHECK-NEXT: call void @eager_buffer_dead(
; CHECK-NEXT: call void @host_work()
; CHECK: call i32 @eager_cudaFree
; CHECK: call void @eager_task_end
define i32 @main() {
  %a = alloca ptr
  %b = alloca ptr
  %host = alloca [16 x i8]
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %2 = call i32 @cudaMalloc(ptr %b, i64 16)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z16__device_stub__kPf(ptr %pa)
  call void @_Z16__device_stub__kPf(ptr %pb)
  %3 = call i32 @cudaMemcpy(ptr %host, ptr %pb, i64 16, i32 2)
  call void @host_work()
  %4 = call i32 @cudaFree(ptr %pa)
  %5 = call i32 @cudaFree(ptr %pb)
  ret i32 0
}

define internal void @host_work() {
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)

declare void @_Z16__device_stub__kPf(ptr)

!eager.kernels = !{!0}
!0 = !{!"{\22version\22:2,\22kernels\22:[{\22name\22:\22_Z1kPf\22,\22arguments\22:[],\22keeps_pointers\22:false,\22keeps_contents\22:false,\22pointers\22:1}]}"}
