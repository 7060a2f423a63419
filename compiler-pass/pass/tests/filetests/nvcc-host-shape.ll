; RUN: once
; nvcc's host code calls a function with the kernel's own name, which calls the stub.
; REMARK: static task in f: 1 allocation, 8 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 8, i64 8, i64 {{.*}}, i32 {{.*}})
; CHECK: call void @_Z1kPf(
; CHECK-LABEL: define void @_Z1kPf(
; CHECK-NOT: call void @eager_task
declare void @_Z20__device_stub__Z1kPfPf(ptr)
define void @f() {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %c = call i32 @__cudaPushCallConfiguration(i64 1, i32 1, i64 256, i32 1, i64 0, ptr null)
  %skip = icmp ne i32 %c, 0
  br i1 %skip, label %next, label %launch
launch:
  %p = load ptr, ptr %a
  call void @_Z1kPf(ptr %p)
  br label %next
next:
  %q = load ptr, ptr %a
  %1 = call i32 @cudaFree(ptr %q)
  ret void
}
define void @_Z1kPf(ptr %p) {
  call void @_Z20__device_stub__Z1kPfPf(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
