; RUN: twice
; Under -fgpu-rdc the linker registers variables, from clang's entries: the pointer takes the variable's place there, is
; listed for the registration, and belongs to the whole program; a file that declares the variable uses the same.
; CHECK-NOT: @mine =
; CHECK-NOT: @theirs =
; CHECK: @.offloading.entry.mine = {{.*}} ptr @mine.managed,
; CHECK: @kept = internal global [1 x ptr] [ptr @other]
; CHECK: @__clang_gpu_used_external = internal global [1 x ptr] [ptr @theirs.managed]
; CHECK: @mine.managed = hidden externally_initialized global ptr null
; CHECK: = private constant ptr @mine.managed, section "eager_managed"
; CHECK: @theirs.managed = external hidden global ptr
%entry = type { i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }
@mine = dso_local global i32 undef, section ".eager.managed", align 4
@theirs = external global i32, section ".eager.managed", align 4
@other = internal global i32 0
@name = private constant [5 x i8] c"mine\00"
@.offloading.entry.mine = weak constant %entry { i64 0, i16 1, i16 2, i32 0, ptr @mine, ptr @name, i64 4, i64 0, ptr null }, section "llvm_offload_entries"
@kept = internal global [1 x ptr] [ptr @other]
@__clang_gpu_used_external = internal global [1 x ptr] [ptr @theirs]

; CHECK-LABEL: define i32 @sum(
; CHECK: call ptr @eager.managed_address(ptr @mine.managed)
; CHECK: call ptr @eager.managed_address(ptr @theirs.managed)
define i32 @sum() {
  %r = call i32 @cudaDeviceSynchronize()
  %a = load i32, ptr @mine
  %b = load i32, ptr @theirs
  %s = add i32 %a, %b
  ret i32 %s
}

; CHECK-LABEL: define internal ptr @eager.managed_address(
; CHECK: call void @eager_managed_init()
declare i32 @cudaDeviceSynchronize()
