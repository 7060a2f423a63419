; RUN: once
; A recursion only launches, with buffers from outside: the task around it is static.
; REMARK: static task in f: 2 allocations, 16 + 8 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
; CHECK: call void @levels(ptr %pa, ptr %pb, i64 3)
; CHECK-NEXT: call void @eager_all_launched
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)
define internal void @levels(ptr %in, ptr %out, i64 %n) {
  call void @_Z17__device_stub__k2PfS_(ptr %in, ptr %out)
  %rest = sub i64 %n, 1
  %more = icmp ugt i64 %rest, 0
  br i1 %more, label %deeper, label %done
deeper:
  call void @levels(ptr %out, ptr %in, i64 %rest)
  br label %done
done:
  ret void
}
define void @f() {
  %a = alloca ptr
  %b = alloca ptr
  %1 = call i32 @cudaMalloc(ptr %a, i64 16)
  %2 = call i32 @cudaMalloc(ptr %b, i64 8)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @levels(ptr %pa, ptr %pb, i64 3)
  %3 = call i32 @cudaFree(ptr %pa)
  %4 = call i32 @cudaFree(ptr %pb)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
