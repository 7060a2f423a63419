; What a kernel's threads ask of their block, as LLVM IR that is inlined into every kernel.
;
; A device function or intrinsic `llvm.F` (or `F`) is supported if `eager.F` is defined here: its calls become calls of
; that, with the block context and the thread index before the arguments. Trap: the byte offsets are those of
; `BlockContext` and `Helpers` in eager-exec's `abi.rs`; `tests/layout.rs` keeps the two in step. Loads marked
; `invariant.load` are of fields that do not change while a block runs; `scratch` is not one of them.

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.readcyclecounter()

; ---- indices ----
define i32 @eager.nvvm.read.ptx.sreg.tid.x(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 %tx
}
define i32 @eager.nvvm.read.ptx.sreg.tid.y(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 %ty
}
define i32 @eager.nvvm.read.ptx.sreg.tid.z(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 %tz
}
define i32 @eager.nvvm.read.ptx.sreg.ctaid.x(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %v = load i32, ptr %ctx, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.ctaid.y(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 4
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.ctaid.z(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 8
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.ntid.x(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 12
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.ntid.y(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 16
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.ntid.z(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 20
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.nctaid.x(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 24
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.nctaid.y(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 28
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.nctaid.z(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 32
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.warpsize(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 32
}
define i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %nx = call i32 @eager.nvvm.read.ptx.sreg.ntid.x(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %ny = call i32 @eager.nvvm.read.ptx.sreg.ntid.y(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %plane = mul i32 %tz, %ny
  %row = add i32 %plane, %ty
  %start = mul i32 %row, %nx
  %linear = add i32 %start, %tx
  ret i32 %linear
}
define i32 @eager.nvvm.read.ptx.sreg.laneid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %lane = and i32 %linear, 31
  ret i32 %lane
}

; ---- time and order ----
define i32 @eager.nvvm.read.ptx.sreg.clock(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %wide = call i64 @llvm.readcyclecounter()
  %v = trunc i64 %wide to i32
  ret i32 %v
}
define i64 @eager.nvvm.read.ptx.sreg.clock64(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %v = call i64 @llvm.readcyclecounter()
  ret i64 %v
}
define void @eager.nvvm.membar.cta(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  fence seq_cst
  ret void
}
define void @eager.nvvm.membar.gl(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  fence seq_cst
  ret void
}
define void @eager.nvvm.membar.sys(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  fence seq_cst
  ret void
}

; ---- questions that libdevice asks about how it is compiled: denormals are kept, nothing is approximate ----
define i32 @eager.__nvvm_reflect(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %question) {
  ret i32 0
}

; ---- calls back into the executor ----
@eager.assert_format = constant [46 x i8] c"%s:%d: %s: device assertion `%s' has failed.\0A\00"

define i32 @eager.vprintf(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %format, ptr %args) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 120
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 8
  %function = load ptr, ptr %function.at, !invariant.load !0
  %printed = call i32 %function(ptr %format, ptr %args)
  ret i32 %printed
}
define void @eager.trap(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 120
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 16
  %function = load ptr, ptr %function.at, !invariant.load !0
  call void %function(ptr %ctx) noreturn
  unreachable
}
define void @eager.__assertfail(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %message, ptr %file, i32 %line, ptr %function, i64 %char_bytes) {
  %args = alloca { ptr, i32, ptr, ptr }
  store ptr %file, ptr %args
  %line.at = getelementptr i8, ptr %args, i64 8
  store i32 %line, ptr %line.at
  %function.at = getelementptr i8, ptr %args, i64 16
  store ptr %function, ptr %function.at
  %message.at = getelementptr i8, ptr %args, i64 24
  store ptr %message, ptr %message.at
  %printed = call i32 @eager.vprintf(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr @eager.assert_format, ptr %args)
  call void @eager.trap(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  unreachable
}

; ---- shared memory ----
define ptr @eager.shared(ptr %ctx, i64 %offset) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0, !align !1
  %p = getelementptr i8, ptr %shared, i64 %offset
  ret ptr %p
}

; ---- coroutine frames: one per thread, side by side in the scratch arena; the first thread makes it large enough ----
define ptr @eager.frame(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %size, ptr %out) {
  %padded = add i64 %size, 63
  %stride = and i64 %padded, -64
  %stride.at = getelementptr i8, ptr %out, i64 24
  store i64 %stride, ptr %stride.at
  %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %index = zext i32 %linear to i64
  %offset = mul i64 %index, %stride
  %threads = call i64 @eager.threads(ptr %ctx)
  %need = mul i64 %threads, %stride
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %frames = load ptr, ptr %frames.at
  %have.at = getelementptr i8, ptr %ctx, i64 56
  %have = load i64, ptr %have.at
  %enough = icmp uge i64 %have, %need
  br i1 %enough, label %there, label %grow
grow:
  %helpers.at = getelementptr i8, ptr %ctx, i64 120
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function = load ptr, ptr %helpers, !invariant.load !0
  %grown = call ptr %function(ptr %ctx, i64 %need)
  br label %there
there:
  %arena = phi ptr [ %frames, %0 ], [ %grown, %grow ]
  %frame = getelementptr i8, ptr %arena, i64 %offset
  ret ptr %frame
}
define i64 @eager.threads(ptr %ctx) {
  %nx = call i32 @eager.nvvm.read.ptx.sreg.ntid.x(ptr %ctx, i32 0, i32 0, i32 0)
  %ny = call i32 @eager.nvvm.read.ptx.sreg.ntid.y(ptr %ctx, i32 0, i32 0, i32 0)
  %nz = call i32 @eager.nvvm.read.ptx.sreg.ntid.z(ptr %ctx, i32 0, i32 0, i32 0)
  %xy = mul i32 %nx, %ny
  %xyz = mul i32 %xy, %nz
  %threads = zext i32 %xyz to i64
  ret i64 %threads
}

; ---- touch map: where to store a 1, the "read" (plane 0) or "written" (plane 1) byte of the block of an address. The
; store itself is made in the kernel: it says that it does not alias the program's memory, and the inliner would give
; each inlined copy of such a statement a meaning of its own ----
define ptr @eager.mark(ptr %ctx, ptr %address, i64 %plane) {
  %base.at = getelementptr i8, ptr %ctx, i64 64
  %base = load i64, ptr %base.at, !invariant.load !0
  %limit.at = getelementptr i8, ptr %ctx, i64 72
  %limit = load i64, ptr %limit.at, !invariant.load !0
  %map.at = getelementptr i8, ptr %ctx, i64 80
  %map = load ptr, ptr %map.at, !invariant.load !0
  %shift.at = getelementptr i8, ptr %ctx, i64 88
  %shift.narrow = load i32, ptr %shift.at, !invariant.load !0
  %shift = zext i32 %shift.narrow to i64
  %a = ptrtoint ptr %address to i64
  %offset = sub i64 %a, %base
  %block = lshr i64 %offset, %shift
  %entry = call i64 @llvm.umin.i64(i64 %block, i64 %limit)
  %pair = shl i64 %entry, 1
  %index = or i64 %pair, %plane
  %mark = getelementptr i8, ptr %map, i64 %index
  ret ptr %mark
}
define void @eager.alias(ptr %mark) {
  store i8 1, ptr %mark, !alias.scope !2
  ret void
}
; `bytes` bytes from `address`: every block between the first and the last.
define void @eager.touch_range(ptr %ctx, ptr %address, i64 %bytes, i64 %plane) {
  %empty = icmp eq i64 %bytes, 0
  br i1 %empty, label %done, label %begin
begin:
  %shift.at = getelementptr i8, ptr %ctx, i64 88
  %shift.narrow = load i32, ptr %shift.at, !invariant.load !0
  %shift = zext i32 %shift.narrow to i64
  %step = shl i64 1, %shift
  %last = sub i64 %bytes, 1
  br label %next
next:
  %at = phi i64 [ 0, %begin ], [ %following, %next ]
  %p = getelementptr i8, ptr %address, i64 %at
  %p.mark = call ptr @eager.mark(ptr %ctx, ptr %p, i64 %plane)
  store i8 1, ptr %p.mark
  %following = add i64 %at, %step
  %more = icmp ult i64 %following, %last
  br i1 %more, label %next, label %end
end:
  %q = getelementptr i8, ptr %address, i64 %last
  %q.mark = call ptr @eager.mark(ptr %ctx, ptr %q, i64 %plane)
  store i8 1, ptr %q.mark
  br label %done
done:
  ret void
}

; ---- cost counters: kept in registers per thread, added to the block's sums when the thread stops ----
define void @eager.count(ptr %counters, i64 %bytes, i64 %flops32, i64 %flops64) {
  %bytes.old = load i64, ptr %counters
  %bytes.new = add i64 %bytes.old, %bytes
  store i64 %bytes.new, ptr %counters
  %flops32.at = getelementptr i8, ptr %counters, i64 8
  %flops32.old = load i64, ptr %flops32.at
  %flops32.new = add i64 %flops32.old, %flops32
  store i64 %flops32.new, ptr %flops32.at
  %flops64.at = getelementptr i8, ptr %counters, i64 16
  %flops64.old = load i64, ptr %flops64.at
  %flops64.new = add i64 %flops64.old, %flops64
  store i64 %flops64.new, ptr %flops64.at
  ret void
}
; Adds the three counters at `from` to those at `to` and starts again from zero.
define void @eager.flush(ptr %from, ptr %to) {
  %bytes = load i64, ptr %from
  %flops32.at = getelementptr i8, ptr %from, i64 8
  %flops32 = load i64, ptr %flops32.at
  %flops64.at = getelementptr i8, ptr %from, i64 16
  %flops64 = load i64, ptr %flops64.at
  call void @eager.count(ptr %to, i64 %bytes, i64 %flops32, i64 %flops64)
  store i64 0, ptr %from
  store i64 0, ptr %flops32.at
  store i64 0, ptr %flops64.at
  ret void
}

!0 = !{}
!1 = !{i64 128}
; Aliasing scope of the stores to the touch map; `eager.alias` only holds it where the instrumentation finds it.
!2 = !{!3}
!3 = distinct !{!3, !4, !"touch map"}
!4 = distinct !{!4, !"eager"}
