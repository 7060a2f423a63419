; RUN: once
; Kernels launched in a loop, or by a function that runs in one, come back to their buffers: flag 8 beside "pointer" (1).
; CHECK-DAG: [[ONCE:@eager\.args[.0-9]*]] = private constant [1 x { i32, i32 }] [{ i32, i32 } { i32 8, i32 1 }]
; CHECK-DAG: [[LOOP:@eager\.args[.0-9]*]] = private constant [1 x { i32, i32 }] [{ i32, i32 } { i32 8, i32 9 }]
; CHECK: @eager.kernels = {{.*}}ptr @once_stub,{{.*}}ptr [[ONCE]], {{.*}}ptr @loop_stub,{{.*}}ptr [[LOOP]], {{.*}}ptr @below_stub,
@once_name = private constant [5 x i8] c"once\00"
@loop_name = private constant [5 x i8] c"loop\00"
@below_name = private constant [6 x i8] c"below\00"

define void @main(ptr %a, i32 %n) {
  call void @once_stub(ptr %a)
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %j, %loop ]
  call void @loop_stub(ptr %a)
  call void @helper(ptr %a)
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @helper(ptr %a) {
  call void @below_stub(ptr %a)
  ret void
}

define void @once_stub(ptr %a) {
  %slot = alloca ptr
  %args = alloca ptr
  store ptr %a, ptr %slot
  store ptr %slot, ptr %args
  %r = call i32 @cudaLaunchKernel(ptr @once_stub, i64 1, i32 1, i64 1, i32 1, ptr %args, i64 0, ptr null)
  ret void
}

define void @loop_stub(ptr %a) {
  %slot = alloca ptr
  %args = alloca ptr
  store ptr %a, ptr %slot
  store ptr %slot, ptr %args
  %r = call i32 @cudaLaunchKernel(ptr @loop_stub, i64 1, i32 1, i64 1, i32 1, ptr %args, i64 0, ptr null)
  ret void
}

define void @below_stub(ptr %a) {
  %slot = alloca ptr
  %args = alloca ptr
  store ptr %a, ptr %slot
  store ptr %slot, ptr %args
  %r = call i32 @cudaLaunchKernel(ptr @below_stub, i64 1, i32 1, i64 1, i32 1, ptr %args, i64 0, ptr null)
  ret void
}

define internal void @__cuda_register_globals(ptr %h) {
  %r1 = call i32 @__cudaRegisterFunction(ptr %h, ptr @once_stub, ptr @once_name, ptr @once_name, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %r2 = call i32 @__cudaRegisterFunction(ptr %h, ptr @loop_stub, ptr @loop_name, ptr @loop_name, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  %r3 = call i32 @__cudaRegisterFunction(ptr %h, ptr @below_stub, ptr @below_name, ptr @below_name, i32 -1, ptr null, ptr null, ptr null, ptr null, ptr null)
  ret void
}

declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
declare i32 @__cudaRegisterFunction(ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr, ptr, ptr)
