; RUN: once
; A kernel gets a pointer to the end of its buffer, and reads what cudaMalloc's rounding tolerates: it is still that buffer,
; and nothing is put round it.
; REMARK: static task in f: 1 allocation, [argument 2] bytes
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 %n, i64 %n, i64 0, i32 0)
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %a, i64 %n)
; CHECK: call void @_Z16__device_stub__kPf(ptr %inner)
; CHECK-NEXT: call void @eager_all_launched
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
define void @f(ptr %host, i64 %n) {
  %a = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = load ptr, ptr %a
  %2 = call i32 @cudaMemcpy(ptr %p, ptr %host, i64 %n, i32 1)
  %inner = getelementptr i8, ptr %p, i64 %n
  call void @_Z16__device_stub__kPf(ptr %inner)
  %3 = call i32 @cudaFree(ptr %p)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
