; RUN: once
; Two wrappers launch the same kernel, each with a buffer of its own: two tasks with sites of their own.
; REMARK: static task in first: 1 allocation, [argument 1] bytes, 1 launch site
; REMARK: static task in second: 1 allocation, 16 bytes, 1 launch site
; CHECK: @eager.tasks = private constant [2 x
; CHECK-LABEL: define void @first(
; CHECK: call void @eager_task_begin(i64 [[FIRST:-?[0-9]+]], i64 %n, i64 %n,
; CHECK: call void @eager_task_end(i64 [[FIRST]])
; CHECK-LABEL: define void @second(
; CHECK-NOT: call void @eager_task_begin(i64 [[FIRST]]
; CHECK: call void @eager_task_begin(i64 [[SECOND:-?[0-9]+]], i64 16, i64 16,
; CHECK: call void @eager_task_end(i64 [[SECOND]])
; CHECK-LABEL: define i32 @main(
; CHECK-NOT: eager_task
; CHECK: ret i32 0
define void @first(i64 %n) {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
define void @second() {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 16)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
define i32 @main() {
  call void @first(i64 8)
  call void @second()
  ret i32 0
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
