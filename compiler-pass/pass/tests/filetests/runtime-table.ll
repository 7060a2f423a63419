; RUN: once
; The shim gets the addresses of the program's own runtime: of the calls that the source makes as strongly as before
; their renaming, and weakly of what only the shim calls.
; CHECK: @eager.runtime = private constant [[[#COUNT:]] x { ptr, ptr }] [{{.*}}{ ptr @eager.call{{.*}}, ptr @cudaMalloc }
; CHECK-SAME: { ptr @eager.call{{.*}}, ptr @cudaMemPrefetchAsync_v2 }
; CHECK: @eager.module = private constant {{.*}} { i32 3, i32 0, i32 0, i32 [[#COUNT]], {{.*}} ptr @eager.runtime }
; CHECK: call i32 @eager_cudaMalloc(
; CHECK-DAG: declare void @cudaMalloc()
; CHECK-DAG: declare extern_weak void @cudaMemPrefetchAsync_v2()
; CHECK-DAG: declare extern_weak void @cudaEventRecordWithFlags()
; CHECK-DAG: declare void @cudaEventRecordWithFlags_ptsz()
define i32 @f(ptr %p) {
  %r = call i32 @cudaEventRecordWithFlags_ptsz(ptr %p, ptr null, i32 0)
  %e = call i32 @cudaMalloc(ptr %p, i64 8)
  ret i32 %e
}

declare i32 @cudaEventRecordWithFlags_ptsz(ptr, ptr, i32)
declare i32 @cudaMalloc(ptr, i64)
