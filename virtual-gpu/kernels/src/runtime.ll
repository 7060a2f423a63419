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

define i32 @eager.nvvm.read.ptx.sreg.warpid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %warp = lshr i32 %linear, 5
  ret i32 %warp
}
define i32 @eager.nvvm.read.ptx.sreg.nwarpid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 32
}
define i32 @eager.nvvm.read.ptx.sreg.lanemask.eq(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %lane = call i32 @eager.nvvm.read.ptx.sreg.laneid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %mask = shl i32 1, %lane
  ret i32 %mask
}
define i32 @eager.nvvm.read.ptx.sreg.lanemask.lt(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %own = call i32 @eager.nvvm.read.ptx.sreg.lanemask.eq(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %mask = sub i32 %own, 1
  ret i32 %mask
}
define i32 @eager.nvvm.read.ptx.sreg.lanemask.le(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %own = call i32 @eager.nvvm.read.ptx.sreg.lanemask.eq(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %below = sub i32 %own, 1
  %mask = or i32 %below, %own
  ret i32 %mask
}
define i32 @eager.nvvm.read.ptx.sreg.lanemask.ge(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %below = call i32 @eager.nvvm.read.ptx.sreg.lanemask.lt(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %mask = xor i32 %below, -1
  ret i32 %mask
}
define i32 @eager.nvvm.read.ptx.sreg.lanemask.gt(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %upto = call i32 @eager.nvvm.read.ptx.sreg.lanemask.le(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %mask = xor i32 %upto, -1
  ret i32 %mask
}
; One multiprocessor: what a program may learn of where a block runs is a hint only.
define i32 @eager.nvvm.read.ptx.sreg.smid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 0
}
define i32 @eager.nvvm.read.ptx.sreg.nsmid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i32 1
}
define i64 @eager.nvvm.read.ptx.sreg.gridid(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  ret i64 0
}
; The address of what a cooperative launch shares, as CUDA's header puts it together.
define i32 @eager.nvvm.read.ptx.sreg.envreg1(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 148
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
}
define i32 @eager.nvvm.read.ptx.sreg.envreg2(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %p = getelementptr i8, ptr %ctx, i64 144
  %v = load i32, ptr %p, !invariant.load !0
  ret i32 %v
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
define i64 @eager.nvvm.read.ptx.sreg.globaltimer(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 40
  %function = load ptr, ptr %function.at, !invariant.load !0
  %now = call i64 %function()
  ret i64 %now
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

; ---- what the scheduler of waiting threads decides ----
define i32 @eager.ready_lanes(ptr %ctx, i32 %warp) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 24
  %function = load ptr, ptr %function.at, !invariant.load !0
  %lanes = call i32 %function(ptr %ctx, i32 %warp)
  ret i32 %lanes
}
define i1 @eager.next_round(ptr %ctx) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 32
  %function = load ptr, ptr %function.at, !invariant.load !0
  %round = call i32 %function(ptr %ctx)
  %more = icmp ne i32 %round, 0
  ret i1 %more
}

; ---- calls back into the executor ----
define i32 @eager.vprintf(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %format, ptr %args) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 8
  %function = load ptr, ptr %function.at, !invariant.load !0
  %printed = call i32 %function(ptr %format, ptr %args)
  ret i32 %printed
}
define void @eager.trap(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 16
  %function = load ptr, ptr %function.at, !invariant.load !0
  call void %function(ptr %ctx) noreturn
  unreachable
}
define void @eager.__assertfail(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %message, ptr %file, i32 %line, ptr %function, i64 %char_bytes) {
  %assertion = alloca { ptr, ptr, ptr, i32, i32, i32, i32 }
  store ptr %message, ptr %assertion
  %file.at = getelementptr i8, ptr %assertion, i64 8
  store ptr %file, ptr %file.at
  %function.at = getelementptr i8, ptr %assertion, i64 16
  store ptr %function, ptr %function.at
  %line.at = getelementptr i8, ptr %assertion, i64 24
  store i32 %line, ptr %line.at
  %tx.at = getelementptr i8, ptr %assertion, i64 28
  store i32 %tx, ptr %tx.at
  %ty.at = getelementptr i8, ptr %assertion, i64 32
  store i32 %ty, ptr %ty.at
  %tz.at = getelementptr i8, ptr %assertion, i64 36
  store i32 %tz, ptr %tz.at
  %assertion.at = getelementptr i8, ptr %ctx, i64 152
  store ptr %assertion, ptr %assertion.at
  call void @eager.trap(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  unreachable
}

define ptr @eager.malloc(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %bytes) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 48
  %function = load ptr, ptr %function.at, !invariant.load !0
  %memory = call ptr %function(ptr %ctx, i64 %bytes)
  ret ptr %memory
}
define ptr @eager._Znwm(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %bytes) {
  %memory = call ptr @eager.malloc(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %bytes)
  ret ptr %memory
}
define ptr @eager._Znam(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %bytes) {
  %memory = call ptr @eager.malloc(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %bytes)
  ret ptr %memory
}
define void @eager.free(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %memory) {
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 56
  %function = load ptr, ptr %function.at, !invariant.load !0
  call void %function(ptr %ctx, ptr %memory)
  ret void
}

; Strict mode: before an access.
define void @eager.check(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %address, i64 %bytes, ptr %object, i64 %object_bytes, ptr %place, i32 %flags) {
  %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 64
  %function = load ptr, ptr %function.at, !invariant.load !0
  call void %function(ptr %ctx, i32 %linear, ptr %address, i64 %bytes, ptr %object, i64 %object_bytes, ptr %place, i32 %flags)
  ret void
}
; Textures and surfaces: the object, what is done, x and y, z and layer, 16 bytes to store, where the program says so.
define { i64, i64 } @eager.nvvm.image(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i64 %object, i32 %form, i64 %xy, i64 %zl, i64 %low, i64 %high, ptr %place) {
  %linear = call i32 @eager.linear_thread(ptr %ctx, i32 %tx, i32 %ty, i32 %tz)
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function.at = getelementptr i8, ptr %helpers, i64 72
  %function = load ptr, ptr %function.at, !invariant.load !0
  %texels = call { i64, i64 } %function(ptr %ctx, i32 %linear, i64 %object, i32 %form, i64 %xy, i64 %zl, i64 %low, i64 %high, ptr %place)
  ret { i64, i64 } %texels
}
define void @eager._ZdlPv(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %memory) {
  call void @eager.free(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %memory)
  ret void
}
define void @eager._ZdaPv(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %memory) {
  call void @eager.free(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %memory)
  ret void
}

; ---- shared memory ----
define ptr @eager.shared(ptr %ctx, i64 %offset) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0, !align !1
  %p = getelementptr i8, ptr %shared, i64 %offset
  ret ptr %p
}

; An address in shared memory of which only the low half is left.
define ptr @eager.nvvm.shared_address(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i32 %low) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0
  %start = ptrtoint ptr %shared to i64
  %start.low = trunc i64 %start to i32
  %distance = sub i32 %low, %start.low
  %wide = zext i32 %distance to i64
  %p = getelementptr i8, ptr %shared, i64 %wide
  ret ptr %p
}
; An address in shared memory, of whose distance from the start the low half counts.
define ptr @eager.shared.wrapped(ptr %ctx, ptr %address) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0
  %start = ptrtoint ptr %shared to i64
  %at = ptrtoint ptr %address to i64
  %distance = sub i64 %at, %start
  %low = and i64 %distance, 4294967295
  %p = getelementptr i8, ptr %shared, i64 %low
  ret ptr %p
}
; The low half of the address of the memory behind the program's own that cooperative groups use.
define i32 @eager.nvvm.reserved_shared(ptr %ctx, i32 %tx, i32 %ty, i32 %tz) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0
  %bytes.at = getelementptr i8, ptr %ctx, i64 36
  %bytes = load i32, ptr %bytes.at, !invariant.load !0
  %padded = add i32 %bytes, 127
  %offset = and i32 %padded, -128
  %start = ptrtoint ptr %shared to i64
  %low = trunc i64 %start to i32
  %reserved = add i32 %low, %offset
  ret i32 %reserved
}
define i1 @eager.nvvm.isspacep.shared(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %p) {
  %shared.at = getelementptr i8, ptr %ctx, i64 40
  %shared = load ptr, ptr %shared.at, !invariant.load !0
  %bytes.at = getelementptr i8, ptr %ctx, i64 36
  %bytes = load i32, ptr %bytes.at, !invariant.load !0
  %wide = zext i32 %bytes to i64
  %start = ptrtoint ptr %shared to i64
  %at = ptrtoint ptr %p to i64
  %distance = sub i64 %at, %start
  %inside = icmp ult i64 %distance, %wide
  ret i1 %inside
}
; PTX ISA, "prmt": each of four bytes is chosen from eight, or is its sign repeated.
define i32 @eager.nvvm.prmt(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i32 %a, i32 %b, i32 %selector) {
  %low = zext i32 %a to i64
  %b.wide = zext i32 %b to i64
  %high = shl i64 %b.wide, 32
  %bytes = or i64 %high, %low
  br label %next
next:
  %i = phi i32 [ 0, %0 ], [ %i.next, %next ]
  %sum = phi i32 [ 0, %0 ], [ %sum.next, %next ]
  %nibble.at = shl i32 %i, 2
  %nibble = lshr i32 %selector, %nibble.at
  %which = and i32 %nibble, 7
  %sign.bit = and i32 %nibble, 8
  %repeat = icmp ne i32 %sign.bit, 0
  %which.bit = shl i32 %which, 3
  %which.wide = zext i32 %which.bit to i64
  %down = lshr i64 %bytes, %which.wide
  %byte = trunc i64 %down to i8
  %sign = ashr i8 %byte, 7
  %chosen = select i1 %repeat, i8 %sign, i8 %byte
  %wide = zext i8 %chosen to i32
  %place = shl i32 %i, 3
  %up = shl i32 %wide, %place
  %sum.next = or i32 %sum, %up
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, 4
  br i1 %more, label %next, label %done
done:
  ret i32 %sum.next
}
; `__fns`: the place of the `offset`-th bit set in `mask` from bit `base` on, upwards or (negative) downwards.
define i32 @eager.nvvm.fns(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, i32 %mask, i32 %base, i32 %offset) {
  %down = icmp slt i32 %offset, 0
  %step = select i1 %down, i32 -1, i32 1
  %negated = sub i32 0, %offset
  %wanted.abs = select i1 %down, i32 %negated, i32 %offset
  %exactly = icmp eq i32 %offset, 0
  br label %look
look:
  %at = phi i32 [ %base, %0 ], [ %at.next, %step.on ]
  %seen = phi i32 [ 0, %0 ], [ %seen.next, %step.on ]
  %inside = icmp ult i32 %at, 32
  br i1 %inside, label %test, label %none
test:
  %shifted = lshr i32 %mask, %at
  %bit = and i32 %shifted, 1
  %seen.next = add i32 %seen, %bit
  %set = icmp ne i32 %bit, 0
  %enough = icmp uge i32 %seen.next, %wanted.abs
  %here = and i1 %set, %enough
  br i1 %here, label %found, label %step.on
step.on:
  %at.next = add i32 %at, %step
  br i1 %exactly, label %none, label %look
found:
  ret i32 %at
none:
  ret i32 -1
}

; ---- guards: a stretch of threads in a row that go the same way is its length times two, plus one where the guard's
; comparison holds; a length of 2^32 is longer than any row ----
define i64 @eager.stretch.row(i1 %holds) {
  %bit = zext i1 %holds to i64
  %stretch = or i64 %bit, 8589934592
  ret i64 %stretch
}
; Where both hold, or not, as far as neither changes.
define i64 @eager.stretch.both(i64 %a, i64 %b) {
  %a.length = or i64 %a, 1
  %b.length = or i64 %b, 1
  %least = call i64 @llvm.umin.i64(i64 %a.length, i64 %b.length)
  %hold = and i64 %a, %b
  %mask = or i64 %hold, -2
  %stretch = and i64 %least, %mask
  ret i64 %stretch
}
; How many threads of the stretch follow thread `x` in its row, in place of its length.
define i64 @eager.stretch.rest(i64 %stretch, i32 %x, i32 %row.end) {
  %length = lshr i64 %stretch, 1
  %left = sub nuw i32 %row.end, %x
  %left.wide = zext i32 %left to i64
  %least = call i64 @llvm.umin.i64(i64 %length, i64 %left.wide)
  %rest = add nsw i64 %least, -1
  %shifted = shl nuw nsw i64 %rest, 1
  %holds = and i64 %stretch, 1
  %both = or disjoint i64 %shifted, %holds
  ret i64 %both
}
; A guard's condition, if it is not known.
define i1 @eager.known(i1 %condition, i32 %part, i32 %holds, i32 %fails) {
  %is.held = icmp eq i32 %part, %holds
  %is.failed = icmp eq i32 %part, %fails
  %or.true = select i1 %is.held, i1 true, i1 %condition
  %known = select i1 %is.failed, i1 false, i1 %or.true
  ret i1 %known
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
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function = load ptr, ptr %helpers, !invariant.load !0
  %grown = call ptr %function(ptr %ctx, i64 %need)
  br label %there
there:
  %arena = phi ptr [ %frames, %0 ], [ %grown, %grow ]
  %frame = getelementptr i8, ptr %arena, i64 %offset
  ret ptr %frame
}
; Memory for the threads of a block, `need` bytes at least.
define ptr @eager.arena(ptr %ctx, i64 %need) {
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %frames = load ptr, ptr %frames.at
  %have.at = getelementptr i8, ptr %ctx, i64 56
  %have = load i64, ptr %have.at
  %enough = icmp uge i64 %have, %need
  br i1 %enough, label %there, label %grow
grow:
  %helpers.at = getelementptr i8, ptr %ctx, i64 128
  %helpers = load ptr, ptr %helpers.at, !invariant.load !0
  %function = load ptr, ptr %helpers, !invariant.load !0
  %grown = call ptr %function(ptr %ctx, i64 %need)
  br label %there
there:
  %arena = phi ptr [ %frames, %0 ], [ %grown, %grow ]
  ret ptr %arena
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
; The whole mark, as a call. (It must not say what memory it writes: of what LLVM sees and what it is told, it believes the less.)
; ---- which memory an address leads to. A thread's own lies on the stack or among the frames of coroutines ----
declare ptr @llvm.frameaddress.p0(i32)
define i1 @eager.nvvm.isspacep.local(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %address) {
  %a = ptrtoint ptr %address to i64
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %here = ptrtoint ptr %frame to i64
  %low = sub i64 %here, 1048576
  %above = sub i64 %a, %low
  %on.stack = icmp ult i64 %above, 2097152
  %frames.at = getelementptr i8, ptr %ctx, i64 48
  %frames = load ptr, ptr %frames.at
  %bytes.at = getelementptr i8, ptr %ctx, i64 56
  %bytes = load i64, ptr %bytes.at
  %start = ptrtoint ptr %frames to i64
  %offset = sub i64 %a, %start
  %in.frames = icmp ult i64 %offset, %bytes
  %own = or i1 %on.stack, %in.frames
  ret i1 %own
}
define i1 @eager.nvvm.isspacep.global(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %address) {
  %shared = call i1 @eager.nvvm.isspacep.shared(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %address)
  %local = call i1 @eager.nvvm.isspacep.local(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %address)
  %either = or i1 %shared, %local
  %global = xor i1 %either, true
  ret i1 %global
}

; ---- functions that stay functions (`out_of_line.rs`): which thread they run for; context, counters, start of dynamic shared
; memory, index, marks ----
@eager.thread = internal thread_local global { ptr, ptr, i64, i32, i32, i32, i32 } zeroinitializer
@__start_eager_device_code = extern_weak hidden global i8
@__stop_eager_device_code = extern_weak hidden global i8
declare ptr @llvm.threadlocal.address.p0(ptr)
define ptr @eager.entered() {
  %record = call ptr @llvm.threadlocal.address.p0(ptr @eager.thread)
  ret ptr %record
}
define void @eager.enter(ptr %ctx, i32 %tx, i32 %ty, i32 %tz, ptr %out, i32 %marks, i64 %dynamic) noinline {
  %record = call ptr @eager.entered()
  store ptr %ctx, ptr %record
  %out.at = getelementptr i8, ptr %record, i64 8
  store ptr %out, ptr %out.at
  %dynamic.at = getelementptr i8, ptr %record, i64 16
  store i64 %dynamic, ptr %dynamic.at
  %tx.at = getelementptr i8, ptr %record, i64 24
  store i32 %tx, ptr %tx.at
  %ty.at = getelementptr i8, ptr %record, i64 28
  store i32 %ty, ptr %ty.at
  %tz.at = getelementptr i8, ptr %record, i64 32
  store i32 %tz, ptr %tz.at
  %marks.at = getelementptr i8, ptr %record, i64 36
  store i32 %marks, ptr %marks.at
  ret void
}
; A pointer that is called: itself where it leads to device code of this program or library, else 0.
define ptr @eager.callee(ptr %function) {
  %at = ptrtoint ptr %function to i64
  %start = ptrtoint ptr @__start_eager_device_code to i64
  %stop = ptrtoint ptr @__stop_eager_device_code to i64
  %not.below = icmp uge i64 %at, %start
  %below = icmp ult i64 %at, %stop
  %inside = and i1 %not.below, %below
  %callee = select i1 %inside, ptr %function, ptr null
  ret ptr %callee
}
define void @eager.mark.apart(ptr %ctx, i64 %address, i64 %plane) noinline {
  %p = inttoptr i64 %address to ptr
  %mark = call ptr @eager.mark(ptr %ctx, ptr %p, i64 %plane)
  store i8 1, ptr %mark
  ret void
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
