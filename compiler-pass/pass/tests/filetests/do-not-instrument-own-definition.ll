; RUN: once
; A module that defines a runtime call keeps it: it is a runtime, not a program.
; CHECK: define i32 @cudaMalloc(
; CHECK-NOT: eager_cudaMalloc
define i32 @cudaMalloc(ptr %p, i64 %n) {
  ret i32 0
}
define i32 @f(ptr %p) {
  %e = call i32 @cudaMalloc(ptr %p, i64 8)
  ret i32 %e
}

