; RUN: once
; The kernel gets its pointer in a struct passed by value; the task is found through the struct.
; REMARK: static task in f: 1 allocation, 8 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 8, i64 8, i64 0, i32 0)
%box = type { ptr, i32 }
declare void @_Z18__device_stub__box3Box(ptr byval(%box))
define void @f() {
  %a = alloca ptr
  %s = alloca %box
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  store ptr %p, ptr %s
  call void @_Z18__device_stub__box3Box(ptr byval(%box) %s)
  %q = load ptr, ptr %a
  %f = call i32 @cudaFree(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
