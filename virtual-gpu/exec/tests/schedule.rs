//! Tests which threads of a block continue, and with which results.

use eager_exec::abi::Wait;
use eager_exec::schedule::{BARRIER_COUNT, Round, WaitKind, next_round, ready_lanes};

fn wait(kind: WaitKind, mask: u32, value: u64) -> Wait {
    Wait { kind: kind as u32, mask, value, ..Wait::default() }
}

fn answers(warp: &[Wait]) -> Vec<u64> {
    warp.iter().map(|wait| wait.result).collect()
}

#[test]
fn an_operation_waits_for_all_that_it_names_and_that_have_not_exited() {
    let mut warp = [wait(WaitKind::Ballot, 0b111, 1), Wait::default(), wait(WaitKind::Exited, 0, 0)];
    assert_eq!(ready_lanes(&mut warp), 0b010, "the second is not there yet");
    warp[1] = wait(WaitKind::Ballot, 0b111, 0);
    assert_eq!(ready_lanes(&mut warp), 0b011);
    assert_eq!(answers(&warp)[..2], [0b01, 0b01]);
}

#[test]
fn groups_of_one_warp_do_not_wait_for_each_other() {
    let mut warp: Vec<Wait> = (0..8)
        .map(|lane| match lane % 2 {
            0 => wait(WaitKind::ReduceAdd, 0x55, lane),
            _ => wait(WaitKind::Barrier, 0, 0),
        })
        .collect();
    assert_eq!(ready_lanes(&mut warp), 0x55);
    assert_eq!(answers(&warp), [12, 0, 12, 0, 12, 0, 12, 0]);
}

#[test]
fn shuffles_stay_in_their_segment() {
    let shuffle = |kind, argument, control| -> Vec<u64> {
        let mut warp: Vec<Wait> =
            (0..32).map(|lane| Wait { argument, control, ..wait(kind, u32::MAX, 100 + lane) }).collect();
        assert_eq!(ready_lanes(&mut warp), u32::MAX);
        answers(&warp).into_iter().map(|answer| answer & 0xffff_ffff).collect()
    };
    // Segments of 8 lanes, as for `__shfl_*_sync(..., 8)`.
    let (down, up) = ((24 << 8) | 31, 24 << 8);
    let expected = |source: fn(u64) -> u64| (0..32).map(|lane| 100 + source(lane)).collect::<Vec<_>>();
    assert_eq!(shuffle(WaitKind::ShuffleDown, 3, down), expected(|l| if l % 8 < 5 { l + 3 } else { l }));
    assert_eq!(shuffle(WaitKind::ShuffleUp, 3, up), expected(|l| if l % 8 >= 3 { l - 3 } else { l }));
    assert_eq!(shuffle(WaitKind::ShuffleXor, 9, down), expected(|l| if l ^ 9 <= l | 7 { l ^ 9 } else { l }));
    assert_eq!(shuffle(WaitKind::ShuffleIndex, 2, down), expected(|l| l / 8 * 8 + 2));
}

#[test]
fn the_active_mask_is_given_last_and_to_one_place_at_a_time() {
    let ask = |place| Wait { argument: place, ..wait(WaitKind::ActiveMask, 0, 0) };
    let mut warp = [ask(7), wait(WaitKind::SyncWarp, 0b0010, 0), ask(7), ask(9)];
    assert_eq!(ready_lanes(&mut warp), 0b0010, "others first: they may still come to the same place");
    warp[1] = ask(7);
    assert_eq!(ready_lanes(&mut warp), 0b0111);
    assert_eq!(answers(&warp)[..3], [0b0111; 3]);
    (0..3).for_each(|lane| warp[lane] = wait(WaitKind::Exited, 0, 0));
    assert_eq!((ready_lanes(&mut warp), warp[3].result), (0b1000, 0b1000));
}

#[test]
fn a_block_barrier_is_for_those_that_have_not_exited() {
    let barrier = Wait { control: BARRIER_COUNT, ..wait(WaitKind::Barrier, 0, 1) };
    let mut block = [barrier, wait(WaitKind::Exited, 0, 0), Wait { value: 0, ..barrier }];
    assert_eq!(next_round(&mut block, false), Round::GoesOn);
    assert_eq!((block[0].result, block[2].result), (1, 1));
    block.iter_mut().for_each(|wait| wait.kind = WaitKind::Exited as u32);
    assert_eq!(next_round(&mut block, false), Round::Finished);
}

#[test]
fn named_barriers_with_a_count_let_part_of_a_block_go_on() {
    let at = |barrier, argument| Wait { argument, ..wait(WaitKind::Barrier, barrier, 0) };
    let mut block = [at(1, 2), at(1, 2), at(2, 3), at(2, 3)];
    assert_eq!(next_round(&mut block, false), Round::GoesOn);
    let kinds: Vec<u32> = block.iter().map(|wait| wait.kind).collect();
    assert_eq!(kinds, [0, 0, WaitKind::Barrier as u32, WaitKind::Barrier as u32]);
}

#[test]
fn threads_that_wait_for_each_other_for_ever_are_found() {
    let mut block = [wait(WaitKind::Barrier, 0, 0), wait(WaitKind::SyncWarp, 0b11, 0)];
    assert_eq!(ready_lanes(&mut block), 0);
    assert_eq!(next_round(&mut block, false), Round::Stuck);
}

#[test]
fn a_block_that_only_yields_lets_others_run_in_a_cooperative_launch() {
    for (cooperative, expected) in [(true, Round::Yielded), (false, Round::GoesOn)] {
        let mut block = [wait(WaitKind::Yield, 0, 0), wait(WaitKind::Barrier, 0, 0)];
        assert_eq!(next_round(&mut block, cooperative), expected);
        assert_eq!(ready_lanes(&mut block), 0b01);
    }
}

/// Results of the rule taken word for word: each lane in turn completes its operation with those that its mask names,
/// unless another has completed it for it.
fn completed_lane_by_lane(warp: &mut [Wait]) -> u32 {
    use WaitKind::*;
    let alive =
        (0..warp.len()).filter(|&lane| warp[lane].kind != Exited as u32).fold(0, |all, lane| all | 1 << lane);
    let mut ready = 0u32;
    for lane in 0..warp.len() {
        let own = warp[lane];
        let members: Vec<usize> =
            (0..warp.len()).filter(|&other| other == lane || own.mask & alive & 1 << other != 0).collect();
        let waits = |&other: &usize| warp[other].kind == own.kind && warp[other].mask == own.mask;
        if own.kind == Exited as u32 || ready & 1 << lane != 0 || !members.iter().all(waits) {
            continue;
        }
        let mask = |test: &dyn Fn(usize) -> bool| {
            members.iter().filter(|&&other| test(other)).fold(0u32, |all, other| all | 1 << other)
        };
        let (values, everyone) = (warp.iter().map(|wait| wait.value).collect::<Vec<u64>>(), mask(&|_| true));
        let votes = mask(&|other| values[other] & 1 == 1);
        let numbers = members.iter().map(|&other| values[other] as u32);
        for &to in &members {
            let (same, from) = (mask(&|other| values[other] == values[to]), warp[to].argument as usize & 31);
            warp[to].result = match WaitKind::from_number(own.kind) {
                VoteAll => u64::from(votes == everyone),
                VoteUniform => u64::from(votes == everyone || votes == 0),
                Ballot => votes.into(),
                MatchAny => same.into(),
                MatchAll => {
                    if same == everyone {
                        u64::from(everyone) | 1 << 32
                    } else {
                        0
                    }
                }
                ReduceAdd => numbers.clone().fold(0, u32::wrapping_add).into(),
                ReduceMin => numbers.clone().map(u32::cast_signed).min().map_or(0, i32::cast_unsigned).into(),
                ReduceAnd => numbers.clone().fold(u32::MAX, |a, b| a & b).into(),
                ShuffleIndex => values[if everyone >> from & 1 == 1 { from } else { to }] | 1 << 32,
                kind => unreachable!("{kind:?} is not drawn"),
            };
        }
        ready |= everyone;
    }
    ready
}

#[test]
fn lanes_that_their_mask_does_not_name_take_part_each_for_itself() {
    use WaitKind::*;
    const KINDS: [WaitKind; 9] =
        [VoteAll, VoteUniform, Ballot, MatchAny, MatchAll, ReduceAdd, ReduceMin, ReduceAnd, ShuffleIndex];
    const MASKS: [u32; 6] = [0, 1 << 31, 0xffff, 0xffff_0000, 0x5555_5555, u32::MAX];
    for seed in 1..2000u64 {
        let mut state = seed;
        let mut below = |count: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % count
        };
        let kinds = [KINDS[below(9) as usize], KINDS[below(9) as usize]];
        let masks = [MASKS[below(6) as usize], MASKS[below(6) as usize]];
        let (ways, exits) = (below(2) + 1, below(3));
        let mut warp: Vec<Wait> = (0..32)
            .map(|_| {
                let way = below(ways) as usize;
                let kind = if below(8) < exits { Exited } else { kinds[way] };
                Wait {
                    argument: below(64) as u32,
                    control: 31,
                    ..wait(kind, masks[way], below(4) << 30 | below(3))
                }
            })
            .collect();
        let mut expected = warp.clone();
        let ready = completed_lane_by_lane(&mut expected);
        assert_eq!(ready_lanes(&mut warp), ready, "seed {seed}, {kinds:?} {masks:x?}");
        assert_eq!(answers(&warp), answers(&expected), "seed {seed}, {kinds:?} {masks:x?}");
    }
}
