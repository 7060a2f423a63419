; RUN: once
; Loops that go round three times: each buffer gets a place of its own, and the task is static.
; REMARK: static task in f: 3 allocations, 3 * 8 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
; CHECK-COUNT-3: call i32 @wrapped(
; CHECK: call void @_Z21__device_stub__k3PfS_S_(
; CHECK-COUNT-3: call i32 @eager_cudaFree(
; CHECK: call void @eager_task_end
define void @f() {
  %table = alloca [3 x ptr]
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %slot = getelementptr ptr, ptr %table, i64 %i
  %1 = call i32 @wrapped(ptr %slot, i64 8)
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, 3
  br i1 %more, label %loop, label %done
done:
  %p0 = load ptr, ptr %table
  %at1 = getelementptr ptr, ptr %table, i64 1
  %p1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %table, i64 2
  %p2 = load ptr, ptr %at2
  call void @_Z21__device_stub__k3PfS_S_(ptr %p0, ptr %p1, ptr %p2)
  br label %release
release:
  %k = phi i64 [ 0, %done ], [ %l, %release ]
  %old = getelementptr ptr, ptr %table, i64 %k
  %q = load ptr, ptr %old
  %2 = call i32 @cudaFree(ptr %q)
  %l = add i64 %k, 1
  %again = icmp ult i64 %l, 3
  br i1 %again, label %release, label %out
out:
  ret void
}
define internal i32 @wrapped(ptr %to, i64 %bytes) {
  %1 = call i32 @cudaMalloc(ptr %to, i64 %bytes)
  ret i32 %1
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z21__device_stub__k3PfS_S_(ptr, ptr, ptr)
