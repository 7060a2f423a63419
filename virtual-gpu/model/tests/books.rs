//! For any sequence of calls the books balance and time advances.

use eager_gpu_model::checks::bench::*;
use eager_gpu_model::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Context,
    Destroy(usize),
    Alloc(usize, u64, bool),
    Free(usize),
    Prefetch(usize, u64, u64, bool),
    Kernel(usize, usize, u8, u32),
    Copy(usize, u64, bool),
    Host(usize, u64, u64),
    Advise(usize, u64, u64, u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let part = 0..40 * MIB;
    prop_oneof![
        Just(Step::Context),
        (0..8usize).prop_map(Step::Destroy),
        (0..8usize, 1..40 * MIB, any::<bool>()).prop_map(|(c, b, m)| Step::Alloc(c, b, m)),
        (0..8usize).prop_map(Step::Free),
        (0..8usize, part.clone(), part.clone(), any::<bool>())
            .prop_map(|(a, o, b, d)| Step::Prefetch(a, o, b, d)),
        (0..8usize, 0..8usize, 0..4u8, 1..6u32).prop_map(|(a, b, p, n)| Step::Kernel(a, b, p, n)),
        (0..8usize, part.clone(), any::<bool>()).prop_map(|(a, b, d)| Step::Copy(a, b, d)),
        (0..8usize, part.clone(), part.clone()).prop_map(|(a, o, b)| Step::Host(a, o, b)),
        (0..8usize, part.clone(), part, 0..4u8).prop_map(|(a, o, b, k)| Step::Advise(a, o, b, k)),
        (0..50_000_000u64).prop_map(Step::Wait),
    ]
}

#[derive(Default)]
struct World {
    contexts: Vec<ContextId>,
    allocs: Vec<(ContextId, AllocId, u64)>,
    submitted: usize,
    cancelled: bool,
}

impl World {
    fn alloc(&self, index: usize) -> Option<(ContextId, AllocId, u64)> {
        (!self.allocs.is_empty()).then(|| self.allocs[index % self.allocs.len()])
    }

    fn submit(&mut self, bench: &mut Bench, context: ContextId, op: Op) {
        bench.submit(context, op);
        self.submitted += 1;
    }

    fn take(&mut self, bench: &mut Bench, step: Step) {
        let clip = |offset: u64, bytes: u64, size: u64| {
            let offset = offset.min(size);
            Range { offset, bytes: bytes.min(size - offset) }
        };
        match step {
            Step::Context => {
                if let Ok(made) = bench.model.context_create(bench.now, 0) {
                    self.contexts.push(made.id);
                    self.submitted += usize::from(made.ready.is_some());
                }
            }
            Step::Destroy(i) if !self.contexts.is_empty() => {
                let context = self.contexts.remove(i % self.contexts.len());
                bench.model.context_destroy(bench.now, context).unwrap();
                self.allocs.retain(|a| a.0 != context);
                self.cancelled = true;
            }
            Step::Alloc(i, bytes, managed) if !self.contexts.is_empty() => {
                let context = self.contexts[i % self.contexts.len()];
                let kind = if managed { AllocKind::Managed } else { AllocKind::Device };
                if let Ok(made) = bench.model.alloc(bench.now, context, bytes, kind) {
                    self.allocs.push((context, made.id, bytes));
                    self.submitted += usize::from(made.ready.is_some());
                }
            }
            Step::Free(i) if !self.allocs.is_empty() => {
                let (_, alloc, _) = self.allocs.remove(i % self.allocs.len());
                bench.model.free(bench.now, alloc).unwrap();
            }
            Step::Wait(ns) => {
                bench.now = Nanos(bench.now.0 + ns);
                bench.model.advance(bench.now, &mut bench.done);
            }
            other => self.submit_step(bench, other, clip),
        }
    }

    fn submit_step(&mut self, bench: &mut Bench, step: Step, clip: impl Fn(u64, u64, u64) -> Range) {
        match step {
            Step::Prefetch(i, offset, bytes, device) => {
                let Some((context, alloc, size)) = self.alloc(i) else { return };
                let to = if device { Location::Device } else { Location::Host };
                self.submit(bench, context, Op::Prefetch { alloc, range: clip(offset, bytes, size), to });
            }
            Step::Copy(i, bytes, to_device) => {
                let Some((context, alloc, size)) = self.alloc(i) else { return };
                let range = clip(0, bytes, size);
                let op = if to_device {
                    Op::CopyToDevice { alloc, range, pinned: false }
                } else {
                    Op::CopyToHost { alloc, range, pinned: true }
                };
                self.submit(bench, context, op);
            }
            Step::Host(i, offset, bytes) => {
                let Some((context, alloc, size)) = self.alloc(i) else { return };
                self.submit(bench, context, Op::HostAccess { alloc, range: clip(offset, bytes, size) });
            }
            Step::Advise(i, offset, bytes, kind) => {
                let Some((_, alloc, size)) = self.alloc(i) else { return };
                let advice =
                    [Advice::PreferredDevice, Advice::PreferredHost, Advice::PreferredNone, Advice::Discard]
                        [usize::from(kind)];
                bench.model.advise(bench.now, alloc, clip(offset, bytes, size), advice).unwrap();
            }
            Step::Kernel(i, j, pattern, launches) => {
                let (Some(a), Some(b)) = (self.alloc(i), self.alloc(j)) else { return };
                let pattern = [Pattern::Stream, Pattern::Window, Pattern::Diagonal, Pattern::Random]
                    [usize::from(pattern)];
                let mut accesses = vec![whole(a.1, a.2, pattern)];
                if b.0 == a.0 {
                    accesses.push(Access { density: 0.1, ..whole(b.1, b.2, pattern) });
                }
                self.submit(bench, a.0, Op::Kernel(sweep(accesses, launches)));
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn books_balance_and_every_operation_ends(
        steps in proptest::collection::vec(step(), 1..60),
        mps in any::<bool>(),
        prefetcher in any::<bool>(),
        fair in any::<bool>(),
        used in any::<bool>(),
        leak in any::<bool>(),
    ) {
        let card = Card { memory_bytes: 64 * MIB, ..card("V100-16GB").unwrap() };
        let options = Options {
            mps,
            prefetcher,
            placement: if fair { Placement::Fair } else { Placement::Leftover },
            eviction: if used { Eviction::Used } else { Eviction::Migrated },
            stall_leak: if leak { 0.05 } else { 0.0 },
            host_memory_bytes_per_s: leak.then_some(10e9),
            context_bytes: Some(3 * MIB),
            context_create: Nanos(1_000_000),
            step_blocks: 4,
            overlap: 0.2,
            ..Options::default()
        };
        let mut bench = Bench::new(card, options);
        let mut world = World::default();
        for step in steps {
            world.take(&mut bench, step);
            bench.model.check();
            let info = bench.model.memory_info(0).unwrap();
            prop_assert_eq!(
                info.free + info.context_bytes + info.device_bytes + info.managed_resident, info.total
            );
            let resident: u64 =
                world.allocs.iter().map(|a| bench.model.resident_bytes(a.1).unwrap()).sum();
            prop_assert_eq!(resident, info.device_bytes + info.managed_resident);
        }
        let mut events = 0;
        while let Some(next) = bench.model.next_event() {
            prop_assert!(next >= bench.now || !bench.done.is_empty());
            bench.model.advance(next, &mut bench.done);
            events += 1;
            prop_assert!(events < 200_000, "no end in sight");
        }
        if !world.cancelled {
            prop_assert_eq!(bench.done.len(), world.submitted);
        }
    }
}
