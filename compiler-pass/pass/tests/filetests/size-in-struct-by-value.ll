; RUN: once
; Sizes are fields of a struct that is passed by value: its copy belongs to the function, so the begin reads it itself.
; REMARK: static task in work: 2 allocations, ([n] * 8) + [m] bytes
; CHECK-LABEL: define void @work(
; CHECK: %[[FIELD:.*]] = getelementptr i8, ptr %d, i64 8
; CHECK-NEXT: %[[M:.*]] = load i64, ptr %[[FIELD]], align 1
; CHECK-NEXT: %[[TOTAL:.*]] = add i64 %{{.*}}, %[[M]]
; CHECK-NEXT: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 %[[TOTAL]], i64 %[[TOTAL]], i64 0, i32 0)
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %a,
%dim = type { i64, i64 }
define void @work(ptr byval(%dim) align 8 %d) {
  %a = alloca ptr
  %b = alloca ptr
  %n = load i64, ptr %d
  %na = mul i64 %n, 8
  %1 = call i32 @cudaMalloc(ptr %a, i64 %na)
  %field = getelementptr %dim, ptr %d, i32 0, i32 1
  %m = load i64, ptr %field
  %2 = call i32 @cudaMalloc(ptr %b, i64 %m)
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
