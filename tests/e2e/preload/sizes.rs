//! Programs that allocate bit by bit, with a size that is declared (`--mem`) or learnt from earlier runs: asked for once,
//! before the first allocation.

use super::NOT_INSTRUMENTED;
use eager_tests::cudas::programs;
use eager_tests::daemon::Daemon;
use eager_tests::mixed::Draw;
use eager_tests::{number, run, text, until};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Allocates as many pieces of 1 MiB as its first word says and launches in between, as frameworks do; goes on at the
/// end of its input, and checks every piece.
const GROWS: &str = r#"
int main(int, char **words) {
  int pieces = atoi(words[1]), *p[64];
  size_t free_bytes, total;
  OK(cudaMemGetInfo(&free_bytes, &total));
  printf("%zu MiB free\n", free_bytes >> 20);
  for (int i = 0; i < pieces; i++) {
    OK(cudaMalloc(&p[i], (size_t)1 << 20));
    fill<<<N / 256, 256>>>(p[i], i);
  }
  OK(cudaDeviceSynchronize());
  OK(cudaMemGetInfo(&free_bytes, &total));
  printf("%zu MiB left\n", free_bytes >> 20);
  fflush(stdout);
  getchar();
  for (int i = 0; i < pieces; i++) {
    more<<<N / 256, 256>>>(p[i]);
    if (last_of(p[i]) != i + 1) return 4;
    OK(cudaFree(p[i]));
  }
  printf("right\n");
}
"#;

/// One card of 16 modelled GiB, that are 16 MiB of a program.
fn daemon(policy: &str) -> Daemon {
    let card = ["--virtual", "1xV100-16GB", "--memory-scale", "1024", "--time-scale", "0"];
    Daemon::start(&[&card[..], &["--policy", policy]].concat())
}

fn sized(daemon: &Daemon, flags: &[&str], program: &Path, pieces: u32) -> Command {
    let mut command = daemon.verb(&[&["run", "--preload"], flags].concat());
    command.arg("--").arg(program).arg(pieces.to_string());
    command
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Lets a program go on, and returns what it printed.
fn end(mut child: Child) -> String {
    drop(child.stdin.take());
    let out = child.wait_with_output().expect("its end");
    let said = text(&out);
    assert!(out.status.success() && said.contains("right\n"), "{said}");
    said
}

/// Waits until as many tasks are listed, each with all that it declared; returns their classes.
fn classes(daemon: &Daemon, count: usize) -> Vec<String> {
    until(|| {
        let shown = daemon.ask("ps");
        let tasks = shown["tasks"].as_array().expect("tasks").clone();
        let asked = tasks.iter().filter(|task| task["requirement_bytes"].as_u64() == Some(10 << 20));
        let mut classes: Vec<String> =
            asked.map(|task| task["class"].as_str().unwrap_or_default().to_owned()).collect();
        classes.sort();
        if classes.len() == count { Ok(classes) } else { Err(format!("{shown}")) }
    })
}

#[test]
fn two_that_do_not_both_fit_wait_or_start_over_subscribed_before_they_allocate() {
    let folder = tempfile::tempdir().expect("folder");
    let cases: [(&str, &[&str], &str); 3] =
        [("case", &[], ""), ("eager-opt", &[], "eager"), ("eager-opt", &["--whole"], "")];
    for (program, _) in programs(folder.path(), GROWS, &[NOT_INSTRUMENTED]) {
        for (policy, flags, second) in cases {
            let daemon = daemon(policy);
            let flags = [&["--mem", "10MiB"], flags].concat();
            let first = start(&mut sized(&daemon, &flags, &program, 10));
            assert_eq!(classes(&daemon, 1), ["normal"], "{policy}");
            let other = start(&mut sized(&daemon, &flags, &program, 10));
            let mut wanted = [second, "normal"];
            wanted.sort_unstable();
            assert_eq!(classes(&daemon, 2), wanted, "{policy} {flags:?}");
            for said in [end(first), end(other)] {
                assert!(said.contains("10 MiB free\n") && said.contains("0 MiB left\n"), "{said}");
            }
        }
    }
}

#[test]
fn the_next_run_asks_for_what_the_last_ones_took() {
    let folder = tempfile::tempdir().expect("folder");
    let Some((program, _)) = programs(folder.path(), GROWS, &[NOT_INSTRUMENTED]).into_iter().last() else {
        return;
    };
    let daemon = daemon("case");
    let learnt = "eager: asks for 10 MiB, ";
    assert!(!end(start(&mut sized(&daemon, &[], &program, 10))).contains(learnt));
    let until_ended = |count: usize| {
        until(|| {
            let ended = daemon.ask("history")["programs"].as_array().expect("programs").len();
            if ended == count { Ok(()) } else { Err(format!("{ended} of {count}")) }
        });
    };
    until_ended(1);
    let first = start(&mut sized(&daemon, &[], &program, 10));
    assert_eq!(classes(&daemon, 1), ["normal"]);
    let second = start(&mut sized(&daemon, &[], &program, 10));
    assert_eq!(classes(&daemon, 2), ["", "normal"], "it waits before it holds anything");
    for said in [end(first), end(second)] {
        assert!(said.contains(&format!("{learnt}as its last run took (--mem changes that)\n")), "{said}");
    }
    until_ended(3);
    // A wrong guess costs nothing: more is asked for, and learnt.
    let said = end(start(&mut sized(&daemon, &[], &program, 12)));
    assert!(said.contains(learnt), "{said}");
    until_ended(4);
    let said = end(start(&mut sized(&daemon, &[], &program, 1)));
    let most = "eager: asks for 12 MiB, the most that its last 2 runs took (--mem changes that)\n";
    assert!(said.contains(most), "{said}");
    let said = end(start(&mut sized(&daemon, &["--mem", "2MiB"], &program, 1)));
    assert!(!said.contains("asks for"), "{said}");
    let quiet = end(start(&mut sized(&daemon, &["--quiet"], &program, 1)));
    assert!(!quiet.contains("asks for"), "{quiet}");
}

#[test]
fn a_wrong_size_is_said_or_asked_for_more() {
    let folder = tempfile::tempdir().expect("folder");
    let daemon = daemon("case");
    for (program, _) in programs(folder.path(), GROWS, &[NOT_INSTRUMENTED]) {
        let mut small = start(&mut sized(&daemon, &["--mem", "512KiB"], &program, 5));
        small.stdin.as_mut().expect("stdin").write_all(b"\n").expect("write");
        end(small);
        let large = text(&run(&mut sized(&daemon, &["--mem", "40GiB"], &program, 1)));
        assert!(large.contains("the task in the whole program (40 GiB) is refused: "), "{large}");
        assert!(large.contains("is larger than every device"), "{large}");
        assert!(large.contains("cudaErrorMemoryAllocation"), "{large}");
        let none = text(&run(&mut sized(&daemon, &["--mem", "0"], &program, 1)));
        assert!(none.contains("`0` is no memory"), "{none}");
    }
    assert_eq!(daemon.ask("ps")["tasks"], serde_json::json!([]));
}

/// Runs mixes of programs, each with its size declared, whose sum exceeds two cards by two times; half of the mixes under
/// a policy that over-subscribes.
fn mixes(count: u32) {
    let folder = tempfile::tempdir().expect("folder");
    let Some((program, _)) = programs(folder.path(), GROWS, &[NOT_INSTRUMENTED]).into_iter().last() else {
        return;
    };
    let seed = number("EAGER_TEST_SEED", 1);
    eprintln!("EAGER_TEST_SEED={seed}");
    let mut draw = Draw::new(seed);
    let cards = ["--virtual", "2xV100-16GB", "--memory-scale", "1024", "--time-scale", "0"];
    for policy in ["eager-fair", "eager-opt"] {
        let daemon = Daemon::start(&[&cards[..], &["--policy", policy]].concat());
        let mut ran = 0;
        for mix in 0..count {
            let (mut sizes, mut sum) = (Vec::new(), 0);
            while sum < 64 {
                sizes.push(1 + draw.below(14) as u32);
                sum += sizes[sizes.len() - 1];
            }
            let run = |pieces: &u32| {
                let size = format!("{pieces}MiB");
                start(&mut sized(&daemon, &["--mem", &size], &program, *pieces))
            };
            let mut children: Vec<Child> = sizes.iter().map(run).collect();
            // All may go on: any of them may hold what another waits for.
            children.iter_mut().for_each(|child| drop(child.stdin.take()));
            ran += children.len();
            for (child, pieces) in children.into_iter().zip(&sizes) {
                let out = child.wait_with_output().expect("its end");
                let said = text(&out);
                let is_right = out.status.success() && said.contains("right\n");
                assert!(is_right, "{policy}, mix {mix} {sizes:?}, {pieces} MiB: {said}");
            }
        }
        eprintln!("{policy}: {count} mixes, {ran} programs");
        assert_eq!(daemon.ask("ps")["tasks"], serde_json::json!([]), "{policy}");
    }
}

#[test]
fn no_program_of_a_mix_twice_as_large_as_the_cards_runs_out_of_memory() {
    mixes(1);
}

#[test]
#[ignore = "long"]
fn long_no_program_of_a_hundred_mixes_runs_out_of_memory() {
    mixes(50);
}
