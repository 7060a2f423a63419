//! LLVM IR of the loops over the threads of a block, x innermost.
//!
//! Trap: threads must run in rising order, however a guard cuts a row: then atomics on floating-point numbers give the
//! same sums in every form.

/// Body of the loops, and metadata for the optimiser.
pub(crate) struct Loops<'a> {
    /// Prefix of the names of all values and labels.
    pub prefix: &'a str,
    /// Label reached after the last thread.
    pub exit: &'a str,
    /// Returns code for one thread, given the prefix of the names `x` (its index in the row) and `i` (in the block),
    /// and the outcome of the guard. It ends in a branch to `thread.end` with that prefix.
    pub thread: &'a dyn Fn(&str, Part) -> String,
    /// Returns a call that tells how many threads of the row go the same way, given the prefix of `y`, `z` and `first`.
    pub guard: Option<&'a dyn Fn(&str) -> String>,
    /// Metadata appended to the branch that ends the innermost loop.
    pub parallel_loop: &'a str,
}

/// Known outcome of a region's guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Unknown,
    Inside,
    Outside,
}

impl Loops<'_> {
    /// Text of the loops; it begins at the label `begin` with the prefix.
    pub fn text(&self) -> String {
        let (p, exit) = (self.prefix, self.exit);
        let row = match self.guard {
            None => {
                format!("  %{p}.rest = sub nuw nsw i32 %nx, 1\n  br label %{p}.threads\n")
                    + &self.row(p, "0", &format!("{p}.rows"), &format!("{p}.row.end"), Part::Unknown)
            }
            Some(guard) => self.guarded_row(&guard(p)),
        };
        format!(
            "{p}.begin:\n  br label %{p}.planes\n\
             {p}.planes:\n  %{p}.z = phi i32 [ 0, %{p}.begin ], [ %{p}.z.next, %{p}.plane.end ]\n  \
             %{p}.z.wide = zext i32 %{p}.z to i64\n  %{p}.plane = mul nuw nsw i64 %{p}.z.wide, %ny.wide\n  \
             br label %{p}.rows\n\
             {p}.rows:\n  %{p}.y = phi i32 [ 0, %{p}.planes ], [ %{p}.y.next, %{p}.row.end ]\n  \
             %{p}.y.wide = zext i32 %{p}.y to i64\n  %{p}.row.number = add nuw nsw i64 %{p}.plane, %{p}.y.wide\n  \
             %{p}.row = mul nuw nsw i64 %{p}.row.number, %nx.wide\n{row}\
             {p}.row.end:\n  %{p}.y.next = add nuw nsw i32 %{p}.y, 1\n  \
             %{p}.y.more = icmp ne i32 %{p}.y.next, %ny\n  \
             br i1 %{p}.y.more, label %{p}.rows, label %{p}.plane.end\n\
             {p}.plane.end:\n  %{p}.z.next = add nuw nsw i32 %{p}.z, 1\n  \
             %{p}.z.more = icmp ne i32 %{p}.z.next, %nz\n  \
             br i1 %{p}.z.more, label %{p}.planes, label %{exit}\n"
        )
    }

    /// Text of a row that is cut where the guard's outcome changes.
    fn guarded_row(&self, guard: &str) -> String {
        let p = self.prefix;
        let [inside, outside] = ["in", "out"].map(|way| format!("{p}.{way}"));
        let [first, end, from, to] =
            ["first", "end", "stretch", "stretch.end"].map(|name| format!("{p}.{name}"));
        format!(
            "  br label %{from}\n\
             {from}:\n  %{first} = phi i32 [ 0, %{p}.rows ], [ %{end}, %{to} ]\n  %{p}.both = {guard}\n  \
             %{p}.inside = trunc i64 %{p}.both to i1\n  %{p}.rest.wide = lshr i64 %{p}.both, 1\n  \
             %{p}.rest = trunc i64 %{p}.rest.wide to i32\n  \
             br i1 %{p}.inside, label %{inside}.threads, label %{outside}.threads\n{}{}\
             {to}:\n  %{p}.last = add nuw nsw i32 %{first}, %{p}.rest\n  \
             %{end} = add nuw nsw i32 %{p}.last, 1\n  %{p}.more = icmp ne i32 %{end}, %nx\n  \
             br i1 %{p}.more, label %{from}, label %{p}.row.end\n",
            self.row(&inside, &format!("%{first}"), &from, &to, Part::Inside),
            self.row(&outside, &format!("%{first}"), &from, &to, Part::Outside),
        )
    }

    /// Text of the thread `first` of a row and the `rest` after it. (The count starts at 0 so that LLVM sees the trip
    /// count at once.)
    fn row(&self, p: &str, first: &str, from: &str, exit: &str, part: Part) -> String {
        let whole = self.prefix;
        format!(
            "{p}.threads:\n  %{p}.k = phi i32 [ 0, %{from} ], [ %{p}.k.next, %{p}.thread.end ]\n  \
             %{p}.x = add nuw nsw i32 {first}, %{p}.k\n  %{p}.x.wide = zext i32 %{p}.x to i64\n  \
             %{p}.i = add nuw nsw i64 %{whole}.row, %{p}.x.wide\n{}\
             {p}.thread.end:\n  %{p}.k.next = add nuw nsw i32 %{p}.k, 1\n  \
             %{p}.k.more = icmp ne i32 %{p}.k, %{whole}.rest\n  \
             br i1 %{p}.k.more, label %{p}.threads, label %{exit}{}\n",
            (self.thread)(p, part),
            self.parallel_loop
        )
    }
}

/// Loads the block's dimensions, which the loops run over.
pub(crate) const DIMENSIONS: &str = "  \
  %nx.at = getelementptr i8, ptr %ctx, i64 12\n  %nx = load i32, ptr %nx.at, !invariant.load !0\n  \
  %ny.at = getelementptr i8, ptr %ctx, i64 16\n  %ny = load i32, ptr %ny.at, !invariant.load !0\n  \
  %nz.at = getelementptr i8, ptr %ctx, i64 20\n  %nz = load i32, ptr %nz.at, !invariant.load !0\n  \
  %nx.wide = zext i32 %nx to i64\n  %ny.wide = zext i32 %ny to i64\n";
