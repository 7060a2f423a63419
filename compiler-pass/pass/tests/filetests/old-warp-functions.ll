; RUN: once
; Warp functions of GPUs before Volta have no mask, and LLVM has no code for them on newer ones: they take the lanes that
; are together.
; CHECK-NOT: @llvm.nvvm.shfl.down.i32(
; CHECK-LABEL: @_Z11__shfl_downiji(
; CHECK: %[[MASK:.*]] = call i32 @llvm.nvvm.activemask()
; CHECK-NEXT: call i32 @llvm.nvvm.shfl.sync.down.i32(i32 %[[MASK]], i32 %v, i32 %d, i32 31)
; CHECK-LABEL: @kernel(
; CHECK: call i1 @llvm.nvvm.vote.any.sync(i32 %{{.*}}, i1 %a)
; CHECK: call i32 @llvm.nvvm.vote.ballot.sync(i32 %{{.*}}, i1 %{{.*}})
; CHECK: call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %{{.*}}, i32 0, i32 31)
target triple = "nvptx64-nvidia-cuda"

define i32 @_Z11__shfl_downiji(i32 %v, i32 %d, i32 %w) {
  %r = call i32 @llvm.nvvm.shfl.down.i32(i32 %v, i32 %d, i32 31)
  ret i32 %r
}
define ptx_kernel void @kernel(ptr %p, i1 %a) {
  %b = call i1 @llvm.nvvm.vote.any(i1 %a)
  %c = call i32 @llvm.nvvm.vote.ballot(i1 %b)
  %d = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %c, i32 0, i32 31)
  %e = call i32 @_Z11__shfl_downiji(i32 %d, i32 1, i32 32)
  store i32 %e, ptr %p
  ret void
}
declare i32 @llvm.nvvm.shfl.down.i32(i32, i32, i32)
declare i1 @llvm.nvvm.vote.any(i1)
declare i32 @llvm.nvvm.vote.ballot(i1)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
