; RUN: once
; Launches in a loop with a geometry that changes: all-launched stands behind the loop, once.
; REMARK: static task in f: 1 allocation, 8 bytes, 1 launch site (1 with changing geometry)
; CHECK-LABEL: define void @f(
; CHECK: loop:
; CHECK-NOT: eager_all_launched
; CHECK: done:
; CHECK-NEXT: call void @eager_all_launched
define void @f(i64 %n) {
  %a = alloca ptr
  %e = call i32 @cudaMalloc(ptr %a, i64 8)
  br label %loop
loop:
  %i = phi i64 [ 1, %0 ], [ %j, %next ]
  %c = call i32 @__cudaPushCallConfiguration(i64 %i, i32 1, i64 256, i32 1, i64 0, ptr null)
  %skip = icmp ne i32 %c, 0
  br i1 %skip, label %next, label %launch
launch:
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  br label %next
next:
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  %q = load ptr, ptr %a
  %f = call i32 @cudaFree(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
