; RUN: twice
; A variable in the section that the driver's header puts it into: the host goes through a pointer, which the runtime is told
; of, and the shim of its size.
; CHECK-NOT: @counter =
; CHECK: @counter.managed = internal externally_initialized global ptr null
@counter = internal global [4 x i32] undef, section ".eager.managed", align 4
@other = internal global i32 0, align 4
@name = private unnamed_addr constant [8 x i8] c"counter\00"
@__cuda_gpubin_handle = internal global ptr null

; CHECK-LABEL: define void @registers(
; CHECK: call void @eager_managed_variable(i64 16)
; CHECK-NEXT: call void @__cudaRegisterManagedVar(ptr %handle, ptr @counter.managed, ptr @name, ptr @name, i32 0, i64 16, i32 0, i32 0)
; CHECK-NOT: call
define void @registers(ptr %handle) {
  call void @__cudaRegisterVar(ptr %handle, ptr @counter, ptr @name, ptr @name, i32 0, i64 16, i32 0, i32 0)
  ret void
}

; CHECK-LABEL: define i32 @element(
; CHECK: [[AT:%.*]] = call ptr @eager.managed_address(ptr @counter.managed)
; CHECK: getelementptr {{.*}}[[AT]]
define i32 @element() {
  %r = call i32 @cudaDeviceSynchronize()
  %v = load i32, ptr getelementptr inbounds ([4 x i32], ptr @counter, i64 0, i64 2)
  ret i32 %v
}

; Where two ways lead on, each brings its own.
; CHECK-LABEL: define ptr @either(
; CHECK: br i1 %c, label %a, label %b
; CHECK: [[A:%.*]] = call ptr @eager.managed_address(
; CHECK: phi ptr [ [[A]], %a ], [ @other, %b ]
define ptr @either(i1 %c) {
  br i1 %c, label %a, label %b
a:
  br label %end
b:
  br label %end
end:
  %p = phi ptr [ @counter, %a ], [ @other, %b ]
  ret ptr %p
}

; CHECK-LABEL: define internal ptr @eager.managed_address(
; CHECK: call i8 @eager___cudaInitModule(
declare void @__cudaRegisterVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32)
declare void @__cudaRegisterManagedVar(ptr, ptr, ptr, ptr, i64, i32)
declare i32 @cudaDeviceSynchronize()
