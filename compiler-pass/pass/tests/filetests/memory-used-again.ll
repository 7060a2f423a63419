; RUN: once
; The second buffer is allocated where the first was: the requirement is the larger sum, and the row has the flag.
; REMARK: static task in f: 3 allocations, at most max(8 + 32, 8 + 16) bytes
; CHECK: @eager.tasks = {{.*}} i32 0, i32 {{[15]}} }
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 40, i64 40,
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)
define void @f() {
  %a = alloca ptr
  %t = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  %2 = call i32 @cudaMalloc(ptr %t, i64 32)
  %p = load ptr, ptr %a
  %q = load ptr, ptr %t
  call void @_Z17__device_stub__k2PfS_(ptr %p, ptr %q)
  %3 = call i32 @cudaFree(ptr %q)
  %4 = call i32 @cudaMalloc(ptr %t, i64 16)
  %r = load ptr, ptr %t
  call void @_Z17__device_stub__k2PfS_(ptr %p, ptr %r)
  %5 = call i32 @cudaFree(ptr %r)
  %6 = call i32 @cudaFree(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
