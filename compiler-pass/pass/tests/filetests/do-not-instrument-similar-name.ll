; RUN: once
; A function of the user's whose name only starts like a runtime call keeps its name.
; CHECK: call i32 @cudaMallocTracked(
; CHECK: call i32 @eager_cudaMalloc(
; CHECK: declare i32 @cudaMallocTracked(
define i32 @f(ptr %p) {
  %tracked = call i32 @cudaMallocTracked(ptr %p, i64 8)
  %plain = call i32 @cudaMalloc(ptr %p, i64 8)
  ret i32 %plain
}

declare i32 @cudaMallocTracked(ptr, i64)
declare i32 @cudaMalloc(ptr, i64)
