; RUN: once
; Device code may call the device's own cudaMalloc: nothing of it is renamed.
; CHECK: call i32 @cudaMalloc(
; CHECK-NOT: eager
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @kernel(ptr %p) {
  %e = call i32 @cudaMalloc(ptr %p, i64 8)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
