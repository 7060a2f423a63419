; RUN: once
; As many buffers as the data has rows: the task is bound at its first launch.
; REMARK: lazy task in f: a buffer is allocated in a loop
; CHECK-LABEL: define void @f(
; CHECK-NOT: eager_task_begin
define void @f(i64 %n) {
  %table = alloca [64 x ptr]
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %slot = getelementptr ptr, ptr %table, i64 %i
  %1 = call i32 @cudaMalloc(ptr %slot, i64 8)
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  %p = load ptr, ptr %table
  call void @_Z16__device_stub__kPf(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
