; RUN: once
; The size is computed before the first allocation; all-launched follows the launch and the end follows the free.
; REMARK: static task in f: 2 allocations
; CHECK-LABEL: define void @f(
; CHECK: mul i64 %n, 4
; CHECK: %[[TOTAL:.*]] = add i64 %{{[0-9]+}}, %{{[0-9]+}}
; CHECK: call void @eager_task_begin(i64 [[SITE:-?[0-9]+]], i64 %[[TOTAL]], i64 %[[TOTAL]], i64 0, i32 0)
; CHECK: call i32 @eager_cudaMalloc
; CHECK: call i32 @eager_cudaMalloc
; CHECK: call void @_Z16__device_stub__kPf
; CHECK: call void @eager_all_launched(i64 [[SITE]])
; CHECK: call i32 @eager_cudaFree
; CHECK: call i32 @eager_cudaFree
; CHECK-NEXT: call void @eager_task_end(i64 [[SITE]])
; CHECK-NEXT: ret void
; CHECK: define internal void @eager.register.module()
; CHECK-NEXT: call void @eager_module_register(ptr @eager.module)
define void @f(i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  %bytes = mul i64 %n, 4
  %1 = call i32 @cudaMalloc(ptr %a, i64 %bytes)
  %more = add i64 %bytes, 4
  %2 = call i32 @cudaMalloc(ptr %b, i64 %more)
  %pa = load ptr, ptr %a
  %pb = load ptr, ptr %b
  call void @_Z16__device_stub__kPf(ptr %pa)
  call void @_Z16__device_stub__kPf(ptr %pb)
  %both = select i1 true, ptr %pa, ptr %pb
  call void @_Z16__device_stub__kPf(ptr %both)
  %3 = call i32 @cudaFree(ptr %pa)
  %4 = call i32 @cudaFree(ptr %pb)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare i32 @__cudaPopCallConfiguration(ptr, ptr, ptr, ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare void @exit(i32) noreturn
declare void @_Z16__device_stub__kPf(ptr)
