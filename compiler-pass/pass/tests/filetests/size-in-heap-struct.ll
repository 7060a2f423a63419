; RUN: once
; Sizes are fields of a heap object that a helper made; two more helpers allocate into it and launch. One task in main.
; REMARK: static task in main: 2 allocations
; CHECK-LABEL: define i32 @main(
; CHECK: %app = call ptr @create(i64 %n)
; CHECK: %[[FIELD:.*]] = getelementptr i8, ptr %app, i64 16
; CHECK: load i64, ptr %[[FIELD]], align 1
; CHECK: call void @eager_task_begin(
; CHECK-NEXT: call void @allocate(ptr %app)
; CHECK-NEXT: call void @run(ptr %app)
; CHECK-NEXT: call void @eager_all_launched
; CHECK-NEXT: call void @destroy(ptr %app)
; CHECK-NEXT: call void @eager_task_end
; CHECK-LABEL: define void @allocate(
; CHECK-NOT: call void @eager_task
%app = type { ptr, ptr, i64 }
declare ptr @malloc(i64)
declare i64 @atol(ptr)
define i32 @main(i32 %argc, ptr %argv) {
  %text = load ptr, ptr %argv
  %n = call i64 @atol(ptr %text)
  %app = call ptr @create(i64 %n)
  call void @allocate(ptr %app)
  call void @run(ptr %app)
  call void @destroy(ptr %app)
  ret i32 0
}
define ptr @create(i64 %n) {
  %app = call ptr @malloc(i64 24)
  %field = getelementptr %app, ptr %app, i32 0, i32 2
  store i64 %n, ptr %field
  ret ptr %app
}
define void @allocate(ptr %app) {
  %field = getelementptr %app, ptr %app, i32 0, i32 2
  %n = load i64, ptr %field
  %1 = call i32 @cudaMalloc(ptr %app, i64 %n)
  %b = getelementptr %app, ptr %app, i32 0, i32 1
  %m = load i64, ptr %field
  %2 = call i32 @cudaMalloc(ptr %b, i64 %m)
  ret void
}
define void @run(ptr %app) {
  %pa = load ptr, ptr %app
  call void @_Z16__device_stub__kPf(ptr %pa)
  %b = getelementptr %app, ptr %app, i32 0, i32 1
  %pb = load ptr, ptr %b
  call void @_Z16__device_stub__kPf(ptr %pb)
  ret void
}
define void @destroy(ptr %app) {
  %pa = load ptr, ptr %app
  %1 = call i32 @cudaFree(ptr %pa)
  %b = getelementptr %app, ptr %app, i32 0, i32 1
  %pb = load ptr, ptr %b
  %2 = call i32 @cudaFree(ptr %pb)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
