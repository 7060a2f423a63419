; RUN: once
; Sizes are globals that the C library fills from a file: the begin stands behind the last read, before the first
; allocation, and loads what is known only there.
; REMARK: static task in search: 2 allocations, ([n] * 8) + [m] bytes
; CHECK-LABEL: define void @search(
; CHECK: call i32 (ptr, ptr, ...) @fscanf(ptr %file, ptr @form, ptr @edges)
; CHECK: %[[EDGES:.*]] = load i32, ptr @edges
; CHECK: call void @eager_task_begin(
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %a, i64 %bytes)
@nodes = global i32 0
@edges = global i32 0
@form = private constant [3 x i8] c"%d\00"
declare i32 @fscanf(ptr, ptr, ...)
define void @search(ptr %file) {
  %a = alloca ptr
  %b = alloca ptr
  %1 = call i32 (ptr, ptr, ...) @fscanf(ptr %file, ptr @form, ptr @nodes)
  %n = load i32, ptr @nodes
  %wide = sext i32 %n to i64
  %bytes = mul i64 %wide, 8
  %2 = call i32 (ptr, ptr, ...) @fscanf(ptr %file, ptr @form, ptr @edges)
  %3 = call i32 @cudaMalloc(ptr %a, i64 %bytes)
  %m = load i32, ptr @edges
  %wide2 = sext i32 %m to i64
  %4 = call i32 @cudaMalloc(ptr %b, i64 %wide2)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z17__device_stub__k2PfS_(ptr %pa, ptr %pb)
  %5 = call i32 @cudaFree(ptr %pa)
  %6 = call i32 @cudaFree(ptr %pb)
  ret void
}
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
