; RUN: once
; Between two kernels the host reads the buffer back, computes, and writes it again: one task over all of it, and
; all-launched not before the second kernel.
; REMARK: static task in f: 1 allocation, [argument 1] bytes, 2 launch sites
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(
; CHECK: call void @_Z16__device_stub__kPf(
; CHECK-NEXT: call i32 @eager_cudaMemcpy(ptr %host, ptr %p, i64 %n, i32 2)
; CHECK-NEXT: call void @sum(
; CHECK-NEXT: call i32 @eager_cudaMemcpy(ptr %p, ptr %host, i64 %n, i32 1)
; CHECK-NEXT: call void @_Z16__device_stub__kPf(
; CHECK-NEXT: call void @eager_all_launched
; CHECK-NEXT: call i32 @eager_cudaMemcpy(ptr %host, ptr %p, i64 %n, i32 2)
; CHECK-NEXT: call i32 @eager_cudaFree
; CHECK-NEXT: call void @eager_task_end
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
declare ptr @malloc(i64)
define void @f(i64 %n) {
  %a = alloca ptr
  %host = call ptr @malloc(i64 %n)
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %2 = call i32 @cudaMemcpy(ptr %host, ptr %p, i64 %n, i32 2)
  call void @sum(ptr %host, i64 %n)
  %3 = call i32 @cudaMemcpy(ptr %p, ptr %host, i64 %n, i32 1)
  call void @_Z16__device_stub__kPf(ptr %p)
  %4 = call i32 @cudaMemcpy(ptr %host, ptr %p, i64 %n, i32 2)
  %5 = call i32 @cudaFree(ptr %p)
  ret void
}
define internal void @sum(ptr %host, i64 %n) {
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %i.next, %loop ]
  %at = getelementptr i8, ptr %host, i64 %i
  %x = load i8, ptr %at
  %y = add i8 %x, 1
  store i8 %y, ptr %at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
