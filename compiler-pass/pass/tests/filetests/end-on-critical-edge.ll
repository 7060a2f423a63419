; RUN: once
; One way frees and one does not, and they meet at the return: each ends the task once, the second on its own edge.
; REMARK: static task in f: 1 allocation, 8 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: switch i32 %mode, label %[[EDGE:.*]] [
; CHECK: [[EDGE]]:
; CHECK-NEXT: call void @eager_task_end
; CHECK-NEXT: br label %done
; CHECK: freeing:
; CHECK: call i32 @eager_cudaFree
; CHECK-NEXT: call void @eager_task_end
; CHECK: done:
; CHECK-NOT: eager_task_end
; CHECK: ret void
define void @f(i32 %mode) {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  switch i32 %mode, label %done [ i32 5, label %freeing ]
freeing:
  %f = call i32 @cudaFree(ptr %p)
  br label %done
done:
  ret void
}
declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare void @_Z16__device_stub__kPf(ptr)
