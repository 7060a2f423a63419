; RUN: once
; A runtime call made through a pointer goes to the shim too.
; CHECK: @table = constant [2 x ptr] [ptr @eager_cudaMalloc, ptr @eager_cudaFree]
; CHECK: store ptr @eager_cudaMalloc, ptr %slot
@table = constant [2 x ptr] [ptr @cudaMalloc, ptr @cudaFree]
define void @f(ptr %slot) {
  store ptr @cudaMalloc, ptr %slot
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
