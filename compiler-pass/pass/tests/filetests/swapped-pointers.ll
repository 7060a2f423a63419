; RUN: once
; An array of two device pointers, swapped between launches: one task with both buffers.
; REMARK: static task in f: 2 allocations, 8 + 16 bytes, 1 launch site
; CHECK-LABEL: define void @f(
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 24, i64 24,
declare void @_Z17__device_stub__k2PfS_(ptr, ptr)
define void @f(i64 %n) {
  %pair = alloca [2 x ptr]
  %second = getelementptr [2 x ptr], ptr %pair, i64 0, i64 1
  %1 = call i32 @cudaMalloc(ptr %pair, i64 8)
  %2 = call i32 @cudaMalloc(ptr %second, i64 16)
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %p = load ptr, ptr %pair
  %q = load ptr, ptr %second
  call void @_Z17__device_stub__k2PfS_(ptr %p, ptr %q)
  store ptr %q, ptr %pair
  store ptr %p, ptr %second
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
