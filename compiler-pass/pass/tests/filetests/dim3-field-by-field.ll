; RUN: once
; A grid built by a constructor and field by field, copied as memory, and read back in the two parts of its calling
; convention: its blocks are values at the begin.
; REMARK: static task in f: 1 allocation, 8 bytes
; CHECK-LABEL: define void @f(
; CHECK: %[[Y:.*]] = zext i32 %height to i64
; CHECK: %[[HIGH:.*]] = shl i64 %[[Y]], 32
; CHECK: %[[X:.*]] = zext i32 %width to i64
; CHECK: or i64 %[[HIGH]], %[[X]]
; CHECK: call void @eager_task_begin(i64 {{-?[0-9]+}}, i64 8, i64 8, i64 %{{.*}}, i32 256)
; CHECK-NEXT: call i32 @eager_cudaMalloc
%struct.dim3 = type { i32, i32, i32 }
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define linkonce_odr void @_ZN4dim3C2Ejjj(ptr %this, i32 %x, i32 %y, i32 %z) {
  store i32 %x, ptr %this
  %y.field = getelementptr %struct.dim3, ptr %this, i32 0, i32 1
  store i32 %y, ptr %y.field
  %z.field = getelementptr %struct.dim3, ptr %this, i32 0, i32 2
  store i32 %z, ptr %z.field
  ret void
}
define void @f(i32 %width, i32 %height) {
  %a = alloca ptr
  %grid = alloca %struct.dim3
  %copy = alloca %struct.dim3
  %coerced = alloca { i64, i32 }
  call void @_ZN4dim3C2Ejjj(ptr %grid, i32 1, i32 1, i32 1)
  store i32 %width, ptr %grid
  %y = getelementptr %struct.dim3, ptr %grid, i32 0, i32 1
  store i32 %height, ptr %y
  %1 = call i32 @cudaMalloc(ptr %a, i64 8)
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %grid, i64 12, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %coerced, ptr %copy, i64 12, i1 false)
  %xy = load i64, ptr %coerced
  %z.part = getelementptr { i64, i32 }, ptr %coerced, i32 0, i32 1
  %z = load i32, ptr %z.part
  %c = call i32 @__cudaPushCallConfiguration(i64 %xy, i32 %z, i64 4294967552, i32 1, i64 0, ptr null)
  %skip = icmp ne i32 %c, 0
  br i1 %skip, label %next, label %launch
launch:
  %p = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %p)
  br label %next
next:
  %q = load ptr, ptr %a
  %2 = call i32 @cudaFree(ptr %q)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
