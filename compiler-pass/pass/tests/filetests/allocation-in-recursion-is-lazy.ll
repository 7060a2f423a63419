; RUN: once
; Each level of a recursion allocates.
; REMARK: lazy task in scan: a buffer is allocated in a recursive function
; CHECK-LABEL: define void @scan(
; CHECK-NOT: eager_task_begin
define void @scan(i64 %n) {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  %half = lshr i64 %n, 1
  %more = icmp ugt i64 %half, 1
  br i1 %more, label %deeper, label %done
deeper:
  call void @scan(i64 %half)
  br label %done
done:
  %q = load ptr, ptr %a
  %2 = call i32 @cudaFree(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
