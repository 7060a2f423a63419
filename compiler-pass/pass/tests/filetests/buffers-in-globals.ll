; RUN: once
; Device pointers in globals, allocated, used and freed by three helpers: one task in main.
; REMARK: static task in main: 1 allocation, [n] bytes, 1 launch site
; CHECK-LABEL: define i32 @main(
; CHECK: load i64, ptr @n
; CHECK: call void @eager_task_begin
; CHECK-NEXT: call void @setup()
; CHECK-NEXT: call void @step()
; CHECK: call void @teardown()
; CHECK-NEXT: call void @eager_task_end
@d = global ptr null
@n = global i64 0
declare i32 @scanf(ptr, ...)
declare i32 @cudaMemset(ptr, i32, i64)
@format = private constant [4 x i8] c"%ld\00"
define void @setup() {
  %n = load i64, ptr @n
  %1 = call i32 @cudaMalloc(ptr @d, i64 %n)
  %p = load ptr, ptr @d
  %2 = call i32 @cudaMemset(ptr %p, i32 0, i64 %n)
  ret void
}
define void @step() {
  %p = load ptr, ptr @d
  call void @_Z16__device_stub__kPf(ptr %p)
  ret void
}
define void @teardown() {
  %p = load ptr, ptr @d
  %1 = call i32 @cudaMemset(ptr %p, i32 0, i64 8)
  %2 = call i32 @cudaFree(ptr %p)
  ret void
}
define i32 @main() {
  %1 = call i32 (ptr, ...) @scanf(ptr @format, ptr @n)
  call void @setup()
  call void @step()
  %2 = call i32 (ptr, ...) @scanf(ptr @format, ptr null)
  call void @teardown()
  ret i32 0
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
