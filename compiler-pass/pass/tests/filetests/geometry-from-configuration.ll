; RUN: once
; Blocks and threads of the first launch are computed at the begin: 8 bytes of x and y, 4 bytes of z.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK: %[[X:.*]] = and i64 %grid, 4294967295
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 8, i64 8, i64 %{{.*}}, i32 256)
define void @f(i64 %grid) {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %c = call i32 @__cudaPushCallConfiguration(i64 %grid, i32 1, i64 4294967552, i32 1, i64 0, ptr null)
  %skip = icmp ne i32 %c, 0
  br i1 %skip, label %next, label %launch
launch:
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  br label %next
next:
  %q = load ptr, ptr %a
  %1 = call i32 @cudaFree(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
