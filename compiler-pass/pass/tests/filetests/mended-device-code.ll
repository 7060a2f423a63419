; RUN: once
; clang's intrinsics for a minimum with a scope compare signed; whose numbers are unsigned is in the name of the function
; around them. A static variable that host code uses has two names, where a kernel comes first.
; CHECK-NOT: @_ZL5local =
; CHECK-LABEL: @_ZL18__uAtomicMin_blockPjj(
; CHECK: call i32 asm sideeffect "atom.cta.min.u32 $0, [$1], $2;", "=r,l,r,~{memory}"(ptr %p, i32 %v)
; CHECK-LABEL: @_ZL21__ullAtomicMax_systemPyy(
; CHECK: call i64 asm sideeffect "atom.sys.max.u64 $0, [$1], $2;", "=l,l,l,~{memory}"(ptr %p, i64 %v)
; CHECK-LABEL: @_ZL18__iAtomicMin_blockPii(
; CHECK: call i32 @llvm.nvvm.atomic.min.gen.i.cta.i32.p0(
; CHECK-LABEL: @kernel(
; CHECK: load i32, ptr addrspace(1) @_ZL5local__static__0123456789abcdef
target triple = "nvptx64-nvidia-cuda"
@_ZL5local = external addrspace(1) global i32
@_ZL5local__static__0123456789abcdef = addrspace(1) externally_initialized global i32 3

define internal i32 @_ZL18__uAtomicMin_blockPjj(ptr %p, i32 %v) {
  %old = call i32 @llvm.nvvm.atomic.min.gen.i.cta.i32.p0(ptr %p, i32 %v)
  ret i32 %old
}
define internal i64 @_ZL21__ullAtomicMax_systemPyy(ptr %p, i64 %v) {
  %old = call i64 @llvm.nvvm.atomic.max.gen.i.sys.i64.p0(ptr %p, i64 %v)
  ret i64 %old
}
define internal i32 @_ZL18__iAtomicMin_blockPii(ptr %p, i32 %v) {
  %old = call i32 @llvm.nvvm.atomic.min.gen.i.cta.i32.p0(ptr %p, i32 %v)
  ret i32 %old
}
define ptx_kernel void @kernel(ptr %p) {
  %a = load i32, ptr addrspace(1) @_ZL5local
  %b = call i32 @_ZL18__uAtomicMin_blockPjj(ptr %p, i32 %a)
  %c = call i32 @_ZL18__iAtomicMin_blockPii(ptr %p, i32 %b)
  %d = zext i32 %c to i64
  %e = call i64 @_ZL21__ullAtomicMax_systemPyy(ptr %p, i64 %d)
  ret void
}
declare i32 @llvm.nvvm.atomic.min.gen.i.cta.i32.p0(ptr, i32)
declare i64 @llvm.nvvm.atomic.max.gen.i.sys.i64.p0(ptr, i64)
