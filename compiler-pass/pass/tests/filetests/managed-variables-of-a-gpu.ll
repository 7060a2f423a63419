; RUN: once
; GPU code keeps the variable, with the mark that LLVM makes `.attribute(.managed)` of.
; CHECK: store i32 1, ptr addrspacecast (ptr addrspace(1) @counter to ptr)
; CHECK: !nvvm.annotations = !{![[MARK:[0-9]+]]}
; CHECK: ![[MARK]] = !{ptr addrspace(1) @counter, !"managed", i32 1}
target triple = "nvptx64-nvidia-cuda"
@counter = addrspace(1) externally_initialized global i32 5, align 4
@managed = private unnamed_addr constant [14 x i8] c"eager.managed\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [{ ptr, ptr, ptr, i32, ptr } { ptr addrspacecast (ptr addrspace(1) @counter to ptr), ptr @managed, ptr @managed, i32 1, ptr null }], section "llvm.metadata"

define ptx_kernel void @kernel() {
  store i32 1, ptr addrspacecast (ptr addrspace(1) @counter to ptr)
  ret void
}
