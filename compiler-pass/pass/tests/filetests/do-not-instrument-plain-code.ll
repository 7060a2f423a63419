; RUN: once
; No CUDA call: the module is left alone.
; CHECK-NOT: eager
; CHECK: define i32 @f
define i32 @f(i32 %x) {
  ret i32 %x
}

