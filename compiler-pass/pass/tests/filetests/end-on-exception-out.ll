; RUN: once
; An exception may leave the function through a plain call: where the task is active, the call gets a landing pad that
; ends it. Calls that throw nothing, and those outside of the task, stay calls.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK-SAME: personality ptr @__gxx_personality_v0
; CHECK: call void @may_throw()
; CHECK: call void @eager_task_begin
; CHECK: invoke void @may_throw()
; CHECK: invoke void @calls_one_that_may()
; CHECK: call void @calls_none_that_may()
; CHECK: call i32 @puts
; CHECK: call void @eager_task_end
; CHECK-NEXT: call void @may_throw()
; CHECK: landingpad
; CHECK-NEXT: cleanup
; CHECK-NEXT: call void @eager_all_launched
; CHECK-NEXT: call void @eager_task_end
; CHECK-NEXT: resume
; CHECK: landingpad
; CHECK-NEXT: cleanup
; CHECK-NEXT: call void @eager_task_end
; CHECK-NEXT: resume
declare void @may_throw()
declare i32 @puts(ptr)
define internal void @calls_one_that_may() {
  call void @may_throw()
  ret void
}
define internal void @calls_none_that_may() {
  %1 = call i32 @puts(ptr null)
  ret void
}
define void @f() {
  %a = alloca ptr
  call void @may_throw()
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @may_throw()
  call void @_Z16__device_stub__kPf(ptr %p)
  call void @calls_one_that_may()
  call void @calls_none_that_may()
  %1 = call i32 @puts(ptr null)
  %2 = call i32 @cudaFree(ptr %p)
  call void @may_throw()
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare void @_Z16__device_stub__kPf(ptr)
