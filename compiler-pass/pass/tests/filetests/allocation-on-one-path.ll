; RUN: once
; Some runs skip an allocation: it counts, as an upper bound, and the task begins before the branch.
; REMARK: static task in f: 2 allocations, at most 8 + [argument 2] bytes
; CHECK-LABEL: define void @f(
; CHECK: %[[TOTAL:.*]] = add i64 8, %n
; CHECK-NEXT: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 %[[TOTAL]], i64 %[[TOTAL]],
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %a, i64 8)
; CHECK: extra:
; CHECK-NOT: eager_task
; CHECK: run:
define void @f(i1 %more, i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  store ptr null, ptr %b
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  br i1 %more, label %extra, label %run
extra:
  %2 = call i32 @cudaMalloc(ptr %b, i64 %n)
  br label %run
run:
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z17__device_stub__k2PfS_(ptr %pa, ptr %pb)
  %3 = call i32 @cudaFree(ptr %pa)
  %4 = call i32 @cudaFree(ptr %pb)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
