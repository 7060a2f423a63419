; RUN: once
; Two calls may throw into one landing pad; only the first way in still has the task, and ends it once.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK: landingpad
; CHECK-NEXT: cleanup
; CHECK-NEXT: call void @eager_task_end
; CHECK-NOT: call void @eager_task_end
; CHECK: resume
declare void @may_throw()
declare i32 @__gxx_personality_v0(...)
define void @f() personality ptr @__gxx_personality_v0 {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  invoke void @may_throw() to label %freed unwind label %pad
freed:
  %1 = call i32 @cudaFree(ptr %p)
  invoke void @may_throw() to label %done unwind label %pad
done:
  ret void
pad:
  %x = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %x
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
