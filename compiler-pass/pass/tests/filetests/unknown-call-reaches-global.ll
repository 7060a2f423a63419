; RUN: once
; While the buffer lives in a global that other objects can name, a function that is not known runs.
; REMARK: lazy task in main: elsewhere runs while other code may reach a device pointer
; CHECK-LABEL: define i32 @main(
; CHECK-NOT: eager_task_begin
@d = global ptr null
declare void @elsewhere()
define i32 @main() {
  call void @elsewhere()
  %1 = call i32 @cudaMalloc(ptr @d, i64 8)
  call void @elsewhere()
  %p = load ptr, ptr @d
  call void @_Z16__device_stub__kPf(ptr %p)
  ret i32 0
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
