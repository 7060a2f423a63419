//! Runs compiled C++ programs on the stand-in library, which the loader finds as `libcudart.so.13`.

mod common;

#[path = "common/attributes.rs"]
mod attributes;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use eager_gpu_model::{Details, Options, parse_cards};
use eager_vgpu_link::{
    ClientFrame, DeviceInfo, FrameBuffer, PROTOCOL_VERSION, Reply, Request, ServerFrame, encode_frame,
    query_devices,
};
use eager_vgpud::{Clock, Endpoint, Scale, Service, Until, serve};

use common::{Built, Major, command, run};

/// See signal(7).
const SIGSEGV: i32 = 11;

const CUDA13: Major = Major { tree: "cuda-13.0", library: "libcudart.so", soname: "libcudart.so.13" };
const CUDA12: Major = Major { tree: "cuda-12.9", library: "libcudart12.so", soname: "libcudart.so.12" };

fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(|| CUDA13.build()).as_ref()
}

const SMALL: &[(&str, &str)] = &[("EAGER_VGPU_MEMORY_SCALE", "1024"), ("EAGER_VGPU_TIME_SCALE", "0")];

#[test]
fn copies_fills_and_kernels_give_right_results() {
    let Some(built) = built() else { return };
    run(built, "copies", &[]);
}

#[test]
fn a_child_of_a_program_that_used_cuda_gets_an_error_at_once_and_one_forked_before_works() {
    let Some(built) = built() else { return };
    run(built, "fork", SMALL);
    run(built, "fork-before", SMALL);
}

#[test]
fn memory_that_is_given_back_beside_a_prefetch_fails_no_stream() {
    let Some(built) = built() else { return };
    run(built, "prefetch-beside-free", SMALL);
}

/// Starts a server with one V100; returns its socket.
fn serve_in(folder: &Path) -> PathBuf {
    let socket = folder.join("vgpu.sock");
    let endpoint = Endpoint::bind(&socket).unwrap();
    let scale = Scale { memory: 1024, time: 0.0 };
    let service = Service::new(parse_cards("V100-16GB").unwrap(), Options::default(), scale, Clock::Real);
    std::thread::spawn(move || serve(&endpoint, service, Until::Signalled));
    socket
}

#[test]
fn a_child_keeps_nothing_of_its_parents_memory_on_a_server() {
    let Some(built) = built() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = serve_in(folder.path());
    let free_at_first = query_devices(&socket).unwrap()[0].free_bytes;
    // The parent ends while its child lives; the child ends with its standard input.
    let mut program = command(built, "fork-and-end", &[]);
    program.env("EAGER_VGPU_SOCKET", &socket).stdin(Stdio::piped());
    let mut parent = program.spawn().unwrap();
    let hold = parent.stdin.take();
    assert!(parent.wait().unwrap().success());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while query_devices(&socket).unwrap()[0].free_bytes != free_at_first {
        assert!(std::time::Instant::now() < deadline, "the child keeps its parent's memory");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(hold);
}

#[test]
fn device_variables_are_reached_through_their_symbols() {
    let Some(built) = built() else { return };
    run(built, "symbols", &[]);
}

#[test]
fn every_device_has_its_own_variables() {
    let Some(built) = built() else { return };
    let two = ("EAGER_VGPU", "2xV100-16GB");
    run(built, "symbols-per-device", &[two]);
    // Strict mode knows the copies.
    run(built, "symbols-per-device", &[two, ("EAGER_VGPU_STRICT", "1")]);
}

#[test]
fn pitched_memory_is_counted_with_its_gaps_and_copied_without_them() {
    let Some(built) = built() else { return };
    run(built, "pitched", &[]);
}

#[test]
fn blocks_in_three_dimensions_are_copied_and_filled() {
    let Some(built) = built() else { return };
    run(built, "blocks", &[]);
}

#[test]
fn arrays_are_memory() {
    let Some(built) = built() else { return };
    run(built, "arrays", &[]);
}

#[test]
fn textures_and_surfaces_are_described_and_wrong_ones_refused_with_a_line() {
    let Some(built) = built() else { return };
    let (_, stderr) = run(built, "textures", &[]);
    assert!(
        stderr.contains("a surface needs an array that was made with cudaArraySurfaceLoadStore"),
        "{stderr}"
    );
    assert!(stderr.contains("a texture of integers has no linear filter"), "{stderr}");
    assert!(stderr.contains("mipmapped arrays are not there"), "{stderr}");
    assert!(stderr.contains("cube map arrays are not there"), "{stderr}");
    let (_, stderr) = run(built, "textures-of-memory", &[]);
    assert!(stderr.contains("a texture's memory begins at a multiple of 512 bytes"), "{stderr}");
}

#[test]
fn host_memory_is_page_locked_by_allocation_or_registration() {
    let Some(built) = built() else { return };
    run(built, "page-locked", &[]);
}

#[test]
fn handles_for_other_processes_are_refused_with_a_line() {
    let Some(built) = built() else { return };
    let (_, stderr) = run(built, "between-processes", &[]);
    let refused = ["GetMemHandle", "OpenMemHandle", "CloseMemHandle", "GetEventHandle", "OpenEventHandle"];
    let line = |call| {
        format!(
            "eager virtual GPU: cudaIpc{call}: virtual GPUs share no memory and no events between processes\n"
        )
    };
    assert_eq!(stderr, refused.map(line).concat());
}

#[test]
fn devices_are_peers_of_each_other() {
    let Some(built) = built() else { return };
    run(built, "peers", &[("EAGER_VGPU", "2xV100-16GB")]);
}

#[test]
fn addresses_of_symbols_are_device_pointers() {
    let Some(built) = built() else { return };
    run(built, "symbol-addresses", &[]);
}

#[test]
fn managed_memory_takes_what_is_resident_and_may_exceed_the_device() {
    let Some(built) = built() else { return };
    run(built, "managed", SMALL);
}

#[test]
fn what_the_host_uses_of_managed_memory_leaves_the_device() {
    let Some(built) = built() else { return };
    run(built, "host-faults", SMALL);
}

#[test]
fn managed_memory_moves_to_the_device_it_is_used_on_and_is_freed_after_its_kernels() {
    let Some(built) = built() else { return };
    let two_slow = [("EAGER_VGPU", "2xV100-16GB"), ("EAGER_VGPU_TIME_SCALE", "200")];
    run(built, "managed-elsewhere", &two_slow);
}

#[test]
fn out_of_memory_is_an_answer_that_a_program_recovers_from() {
    let Some(built) = built() else { return };
    run(built, "out-of-memory", SMALL);
}

#[test]
fn streams_and_events_keep_their_order_and_modelled_time_does_not_depend_on_the_time_scale() {
    let Some(built) = built() else { return };
    let (waiting, _) = run(built, "streams", &[]);
    let (jumping, _) = run(built, "streams", &[("EAGER_VGPU_TIME_SCALE", "0")]);
    let [waiting, jumping] = [waiting, jumping].map(|ms| ms.trim().parse::<f64>().unwrap());
    assert!((waiting - jumping).abs() < 0.5 * jumping, "{waiting} ms and {jumping} ms of modelled time");
}

#[test]
fn streams_say_what_they_were_made_as() {
    let Some(built) = built() else { return };
    run(built, "stream-questions", &[]);
}

#[test]
fn attributes_of_streams_are_obeyed_or_told_back() {
    let Some(built) = built() else { return };
    run(built, "stream-attributes", &[]);
}

#[test]
fn events_belong_to_a_device_and_their_flags_are_checked() {
    let Some(built) = built() else { return };
    run(built, "event-rules", &[("EAGER_VGPU", "2xV100-16GB")]);
}

#[test]
fn host_functions_run_in_their_place_and_must_not_call_cuda() {
    let Some(built) = built() else { return };
    run(built, "host-functions", &[]);
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let Some(built) = built() else { return };
    run(built, "threads-own-streams", &[]);
}

#[test]
fn launches_may_be_described_by_structures() {
    let Some(built) = built() else { return };
    run(built, "structured-launches", &[]);
}

#[test]
fn settings_are_remembered() {
    let Some(built) = built() else { return };
    run(built, "settings", &[("EAGER_VGPU", "2xV100-16GB")]);
}

#[test]
fn memory_is_freed_in_stream_order_and_reused() {
    let Some(built) = built() else { return };
    run(built, "stream-ordered", &[]);
}

#[test]
fn a_full_device_makes_pools_let_go_or_wait() {
    let Some(built) = built() else { return };
    run(built, "pool-pressure", SMALL);
}

#[test]
fn pools_belong_to_a_device_and_have_a_size() {
    let Some(built) = built() else { return };
    run(built, "pools-of-ones-own", &[("EAGER_VGPU", "2xV100-16GB")]);
}

#[test]
fn a_program_maps_memory_to_addresses_itself() {
    let Some(built) = built() else { return };
    let (_, stderr) = run(built, "virtual-memory", &[]);
    assert!(stderr.contains("which is not memory it may access"), "{stderr}");
}

#[test]
fn devices_without_virtual_memory_say_so() {
    let Some(built) = built() else { return };
    run(built, "no-virtual-memory", &[("EAGER_VGPU_VIRTUAL_MEMORY", "0")]);
}

#[test]
fn discarded_contents_of_a_whole_allocation_are_gone_and_take_no_room() {
    let Some(built) = built() else { return };
    run(built, "discard", &[]);
}

#[test]
fn graphs_are_made_node_by_node_launched_and_changed() {
    let Some(built) = built() else { return };
    run(built, "graph-by-hand", &[]);
}

#[test]
fn a_graph_is_written_as_text_and_its_copies_to_symbols_change() {
    let Some(built) = built() else { return };
    run(built, "graph-dot", &[]);
}

#[test]
fn a_batch_copies_and_prefetches_each_of_its_entries() {
    let Some(built) = built() else { return };
    run(built, "batches", &[]);
    run(built, "prefetches", SMALL);
}

#[test]
fn branches_of_a_graph_overlap() {
    let Some(built) = built() else { return };
    run(built, "graph-branches", &[]);
}

#[test]
fn captured_streams_become_graphs() {
    let Some(built) = built() else { return };
    run(built, "graph-by-capture", &[]);
}

#[test]
fn what_capture_forbids_fails_and_invalidates_it() {
    let Some(built) = built() else { return };
    run(built, "capture-rules", &[]);
}

#[test]
fn bad_launches_are_refused_and_a_trap_is_sticky() {
    let Some(built) = built() else { return };
    let (_, stderr) = run(built, "launch-errors", &[]);
    assert!(stderr.contains("kernel orphan has no CPU code"), "{stderr}");
    assert!(stderr.contains("kernel trap: a kernel thread executed a trap"), "{stderr}");
}

#[test]
fn a_kernel_that_faults_is_named_and_its_device_is_lost_but_not_the_process() {
    let Some(built) = built() else { return };
    for (scenario, expected) in [
        ("wild", "kernel wild: it used address 0x1230, which is not memory it may access"),
        ("division", "kernel divide: it divided an integer by zero"),
        ("overflow", "kernel deep: it used address 0x"),
    ] {
        let (_, stderr) = run(built, scenario, &[]);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with(&format!("eager virtual GPU: {expected}")), "{stderr}");
    }
}

#[test]
fn faults_of_the_host_and_handlers_of_the_program_are_left_alone() {
    let Some(built) = built() else { return };
    let host = command(built, "host-fault", &[]).output().unwrap();
    assert_eq!((host.status.signal(), host.stderr.len()), (Some(SIGSEGV), 0));
    let handled = command(built, "own-handler", &[]).output().unwrap();
    assert_eq!((handled.status.code(), handled.stderr.len()), (Some(7), 0));
}

#[test]
fn devices_call_themselves_virtual() {
    let Some(built) = built() else { return };
    let (stdout, _) = run(built, "questions", &[("EAGER_VGPU", "1xV100-16GB,1xH200")]);
    assert_eq!(stdout, "Eager virtual H200\n");
}

#[test]
fn bad_settings_end_in_one_line_and_an_error_code() {
    let Some(built) = built() else { return };
    for (variable, value) in [
        ("EAGER_VGPU", "9xV9000"),
        ("EAGER_VGPU_TIME_SCALE", "fast"),
        ("EAGER_VGPU_WORKERS", "none"),
        ("EAGER_VGPU_SOCKET", "/nonexistent/vgpu.sock"),
    ] {
        let (stdout, stderr) = run(built, "take", &[(variable, value)]);
        assert_eq!(stdout, "3\n", "cudaErrorInitializationError for {variable}={value}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("eager virtual GPU: ") && stderr.contains(value), "{stderr}");
    }
}

#[test]
fn profile_and_trace_are_written() {
    let Some(built) = built() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (profile, trace) = (folder.path().join("profile.json"), folder.path().join("trace.jsonl"));
    let mut environment = SMALL.to_vec();
    environment.push(("EAGER_VGPU_PROFILE", profile.to_str().unwrap()));
    environment.push(("EAGER_VGPU_TRACE", trace.to_str().unwrap()));
    run(built, "managed", &environment);
    let profile: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(profile).unwrap()).unwrap();
    let kernel = &profile["kernels"]["_Z5scalePiii"];
    assert_eq!((&profile["version"], &kernel["launches"]), (&1.into(), &2.into()));
    assert_eq!(
        (&kernel["static_bytes"], &kernel["footprint_bytes"]),
        (&(24 << 20).into(), &(24 << 20).into())
    );
    let trace = std::fs::read_to_string(trace).unwrap();
    let calls: Vec<serde_json::Value> =
        trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let managed = calls.iter().find(|call| call["call"] == "cudaMallocManaged").unwrap();
    assert_eq!((&managed["bytes"], &managed["device"]), (&(24 << 20).into(), &0.into()));
}

#[test]
fn processes_share_a_device_and_a_killed_one_gives_its_memory_back() {
    let Some(built) = built() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vgpu.sock");
    let endpoint = Endpoint::bind(&socket).unwrap();
    let service = Service::new(
        parse_cards("V100-16GB").unwrap(),
        Options::default(),
        Scale { memory: 1024, time: 0.0 },
        Clock::Real,
    );
    std::thread::spawn(move || serve(&endpoint, service, Until::Signalled).unwrap());
    let environment = [("EAGER_VGPU_SOCKET", socket.to_str().unwrap())];
    let free_at_first = query_devices(&socket).unwrap()[0].free_bytes;

    let mut holder =
        command(built, "hold", &environment).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "held\n");
    assert!(query_devices(&socket).unwrap()[0].free_bytes <= free_at_first - (10 << 20));
    assert_eq!(run(built, "take", &environment).0, "2\n", "the device is too full for a second one");

    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(query_devices(&socket).unwrap()[0].free_bytes, free_at_first);
    assert_eq!(run(built, "take", &environment).0, "0\n");
    run(built, "managed", &environment);
}

/// Moment at which the fake server closes the connection.
#[derive(Clone, Copy, Debug)]
enum HangUp {
    /// After the program's next request, without an answer.
    Asked,
    /// With nothing under way, so that the program's next request has no receiver.
    Idle,
}

/// Answers the queries that every program sends, and closes the connection.
fn serve_and_hang_up(mut client: UnixStream, when: HangUp) {
    let device = DeviceInfo {
        index: 0,
        name: "V100-16GB".to_owned(),
        capacity_bytes: 16 << 30,
        free_bytes: 16 << 30,
        sms: 80,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        faults_stall: true,
        shared_bytes_per_sm: 96 << 10,
        registers_per_sm: 65_536,
        compute_capability: (7, 0),
        single_to_double: 2,
        details: Details::default(),
        memory_scale: 1,
        time_scale: 1.0,
    };
    let mut frames = FrameBuffer::default();
    let mut chunk = [0; 4096];
    loop {
        let bytes = client.read(&mut chunk).unwrap();
        frames.push(&chunk[..bytes]);
        while let Some(ClientFrame { id, request }) = frames.next_message().unwrap() {
            let last = matches!((&request, when), (Request::Devices, HangUp::Idle));
            let reply = match request {
                Request::Hello { .. } => Reply::Welcome { version: PROTOCOL_VERSION },
                Request::Join { .. } => Reply::Joined(None),
                Request::Devices => Reply::Devices(vec![device.clone()]),
                _ => return,
            };
            client.write_all(&encode_frame(&ServerFrame { id, reply: Ok(reply) }).unwrap()).unwrap();
            if last {
                return;
            }
        }
    }
}

#[test]
fn a_server_that_goes_away_is_said_once_and_ends_in_error_codes() {
    let Some(built) = built() else { return };
    for when in [HangUp::Asked, HangUp::Idle] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("vgpu.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || serve_and_hang_up(listener.accept().unwrap().0, when));
        let (stdout, stderr) = run(built, "take", &[("EAGER_VGPU_SOCKET", socket.to_str().unwrap())]);
        server.join().unwrap();
        assert_eq!(stdout, "46\n", "cudaErrorDevicesUnavailable, {when:?}");
        assert!(
            stderr.lines().count() == 1 && stderr.contains("the virtual GPU server went away"),
            "{stderr}"
        );
    }
}

/// Beside a daemon's state file: the daemon restarts, and starts the server again.
#[test]
fn a_program_waits_for_the_server_that_its_daemon_starts_again() {
    let Some(built) = built() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("eagerd.state"), "").unwrap();
    let socket = folder.path().join("vgpu.sock");
    let environment = |wait| [("EAGER_VGPU_SOCKET", socket.to_str().unwrap()), ("EAGER_CONNECT_MAX", wait)];
    let (stdout, stderr) = run(built, "take", &environment("0.1"));
    assert!(stdout == "3\n" && stderr.contains("no virtual GPU server at "), "{stdout}{stderr}");
    let mut program =
        command(built, "take", &environment("120")).stdout(Stdio::piped()).spawn().expect("the program");
    // Long enough for its first try; too short a time would test less, never fail.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(program.try_wait().unwrap().is_none(), "it did not wait");
    let endpoint = Endpoint::bind(&socket).unwrap();
    let cards = parse_cards("V100-16GB").unwrap();
    let service = Service::new(cards, Options::default(), Scale { memory: 1024, time: 0.0 }, Clock::Real);
    std::thread::spawn(move || serve(&endpoint, service, Until::Signalled).unwrap());
    assert_eq!(program.wait_with_output().unwrap().stdout, b"0\n");
}

#[test]
fn after_a_kernel_failed_every_call_gives_its_error() {
    let Some(built) = built() else { return };
    common::every_call_gives_the_failure(built, &CUDA13);
}

#[test]
fn a_failed_assertion_is_said_as_on_a_gpu() {
    let Some(built) = built() else { return };
    let said = common::run_with_input(built, "sticky-assert", SMALL, "").1;
    let first = "a.cu:7: void k(int): block: [0,0,0], thread: [3,0,0] Assertion `n < 4` failed.";
    assert_eq!(said.lines().next(), Some(first), "{said}");
}

#[test]
fn a_program_that_ignores_a_fault_ends_with_the_status_that_was_asked_for() {
    let Some(built) = built() else { return };
    let ended = |scenario, status: &[(&str, &str)]| {
        let output = command(built, scenario, &[SMALL, status].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<_> = said.lines().filter(|line| !line.contains("kernel wild:")).collect();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), lines.join("\n"))
    };
    let one = [("EAGER_VGPU_FAULT_STATUS", "1")];
    let (status, printed, said) = ended("ignores-a-fault", &one);
    assert_eq!((status, &*printed), (Some(1), "goes on\ndestroyed\ndestroyed\n"));
    assert_eq!(
        said,
        "eager virtual GPU: the program ended with status 0 although its GPU work had failed \
         (cudaErrorIllegalAddress: an illegal memory access was encountered): the status is 1 instead"
    );
    let own = |status| (Some(status), printed.clone(), String::new());
    assert_eq!(ended("says-a-fault", &one), own(3));
    assert_eq!(ended("ignores-a-fault", &[]), own(0));
    assert_eq!(ended("ignores-a-fault", &[("EAGER_VGPU_FAULT_STATUS", "0")]), own(0));
    assert_eq!(ended("only-wrong-arguments", &one).0, Some(0));

    let folder = tempfile::tempdir().unwrap();
    let socket = serve_in(folder.path());
    let shared = [one[0], ("EAGER_VGPU_SOCKET", socket.to_str().unwrap())];
    assert_eq!(ended("ignores-a-fault", &shared), (Some(1), printed.clone(), said));
}

#[test]
fn every_attribute_that_a_header_names_has_an_answer_and_no_other_number_has() {
    let Some(built) = built() else { return };
    attributes::every_name_has_an_answer_and_no_other_number_has(built, &CUDA13, &CUDA12);
    attributes::values_are_as_they_were_looked_at(built, &CUDA13);
}

#[test]
fn every_field_of_the_properties_is_its_attribute() {
    let Some(built) = built() else { return };
    attributes::every_field_is_its_attribute(built, &CUDA13);
}

#[test]
fn functions_that_virtual_gpus_lack_say_why_once() {
    let Some(built) = built() else { return };
    let named = |refused: &'static cudart::Refused| refused.names.iter().map(|name| (*name, refused.reason));
    common::refused_functions_say_why_once(built, &cudart::refused().flat_map(named).collect::<Vec<_>>());
}
