//! Device variables of a program that uses several devices.

use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};

impl Bench {
    /// Copies to a device variable of the program's device `device`.
    fn use_variable(&mut self, device: i32) {
        assert_eq!(self.shim.set_device(&mut self.thread, device), Outcome::Handled(()));
        let copied = self.shim.on_variable(&mut self.thread, None);
        assert_eq!(copied, Outcome::PassThrough(Why::AsItIs));
    }
}

#[test]
fn devices_that_are_one_gpu_share_their_variables_and_the_program_says_so_once() {
    let mut bench = Bench::new();
    bench.use_variable(1);
    bench.use_variable(1);
    assert!(bench.reported.lock().is_empty(), "one device");
    bench.use_variable(0);
    bench.use_variable(2);
    let reported = bench.reported.lock();
    let [line] = reported.as_slice() else { panic!("{reported:?}") };
    assert!(
        line.starts_with("devices 0 and 1 of this program are the same GPU here and share its"),
        "{line}"
    );
}

#[test]
fn devices_with_a_gpu_each_have_their_own_variables() {
    let mut bench = Bench::new();
    for device in [0, 1] {
        bench.other_thread();
        bench.daemon.bind_on(device);
        bench.begin(SITE, 10);
        bench.use_variable(i32::try_from(device).expect("a device's number"));
    }
    assert!(bench.reported.lock().is_empty());
}
