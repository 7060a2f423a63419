; RUN: once
; Only one of the two branches allocates: the requirement is the larger size.
; REMARK: static task in f: 2 allocations, at most max(
; CHECK-LABEL: define void @f(
; CHECK: %[[LARGER:.*]] = icmp ugt i64 %n, 64
; CHECK: select i1 %[[LARGER]], i64 %n, i64 64
; CHECK: call void @eager_task_begin
define void @f(i1 %c, i64 %n) {
  %a = alloca ptr
  br i1 %c, label %large, label %small
large:
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  br label %both
small:
  %2 = call i32 @cudaMalloc(ptr %a, i64 64)
  br label %both
both:
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %3 = call i32 @cudaFree(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
