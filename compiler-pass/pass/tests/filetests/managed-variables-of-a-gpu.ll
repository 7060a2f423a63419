; RUN: once
; GPU code keeps the variables, with the mark that LLVM makes `.attribute(.managed)` of; so do declarations of what another
; file has, or nvlink refuses the two.
; CHECK: store i32 1, ptr addrspacecast (ptr addrspace(1) @counter to ptr)
; CHECK: !nvvm.annotations = !{![[MARK:[0-9]+]], ![[OTHER:[0-9]+]]}
; CHECK: ![[MARK]] = !{ptr addrspace(1) @counter, !"managed", i32 1}
; CHECK: ![[OTHER]] = !{ptr addrspace(1) @of_another_file, !"managed", i32 1}
target triple = "nvptx64-nvidia-cuda"
@counter = addrspace(1) externally_initialized global i32 5, section ".eager.managed", align 4
@of_another_file = external addrspace(1) global i32, section ".eager.managed", align 4

define ptx_kernel void @kernel() {
  store i32 1, ptr addrspacecast (ptr addrspace(1) @counter to ptr)
  store i32 1, ptr addrspacecast (ptr addrspace(1) @of_another_file to ptr)
  ret void
}
