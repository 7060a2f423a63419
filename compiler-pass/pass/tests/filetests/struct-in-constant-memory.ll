; RUN: once
; The device pointer goes into a struct in constant memory, and no launch names it: the launch belongs to the buffer's task
; all the same.
; REMARK: static task in main: 1 allocation, 64 bytes, 1 launch site
; CHECK-LABEL: define i32 @main(
; CHECK: call void @eager_task_begin(i64 [[SITE:-?[0-9]+]], i64 64, i64 64,
; CHECK-NEXT: call i32 @eager_cudaMalloc(ptr %s, i64 64)
; CHECK: call void @_Z16__device_stub__ci(
; CHECK: call void @eager_all_launched(i64 [[SITE]])
%params = type { ptr, i32 }
@params = internal global %params zeroinitializer
declare i32 @cudaMemcpyToSymbol(ptr, ptr, i64, i64, i32)
declare void @_Z16__device_stub__ci(i32)
define i32 @main() {
  %s = alloca %params
  %1 = call i32 @cudaMalloc(ptr %s, i64 64)
  %2 = call i32 @cudaMemcpyToSymbol(ptr @params, ptr %s, i64 16, i64 0, i32 1)
  call void @_Z16__device_stub__ci(i32 1)
  %p = load ptr, ptr %s
  %3 = call i32 @cudaFree(ptr %p)
  ret i32 0
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
