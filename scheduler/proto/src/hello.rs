//! The first two packets. Fixed size, little endian, no padding; anything else on the socket closes the connection.

use crate::reply::ReplyPage;
use crate::request::RequestPage;
use crate::{MAGIC, PROTOCOL_MAJOR, PROTOCOL_MINOR, text};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a program's name.
pub const LABEL_BYTES: usize = 64;
/// First packet from client to daemon.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Hello {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    /// Feature bits the client understands; the highest eight bits are its priority ([`Hello::priority`]).
    pub features: u64,
    /// Page sizes that the client was built for; both must match within one major version.
    pub request_page_bytes: u32,
    pub reply_page_bytes: u32,
    /// UTF-8, padded with NUL: name of the program in tables.
    pub label: [u8; LABEL_BYTES],
}

/// Follows the [`Hello`] of a program that was connected before: its daemon died, or closed the connection. Since minor
/// 1.
///
/// It proves nothing by itself: the process id and uid that the kernel reports for the connection must be those of the
/// client.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Resume {
    /// [`Welcome::client`] of the earlier connection.
    pub client: u64,
    /// At least the sequence of every cell that the client has seen: the new cells count on from there.
    pub sequence_floor: u32,
    pub reserved: u32,
}

/// A complete first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    pub hello: Hello,
    pub resume: Option<Resume>,
}

/// Feature bit: the daemon recognizes its clients after it was restarted ([`Resume`]).
pub const FEATURE_RESUME: u64 = 1;

/// Daemon to client, with two descriptors attached when `status` is [`WELCOME_OK`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Welcome {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    /// Feature bits that both sides know.
    pub features: u64,
    /// Id of this client in tables and journal.
    pub client: u64,
    /// [`WELCOME_OK`] or a refusal.
    pub status: u32,
    /// The most that one task can ever be granted, in whole MiB; 0 if not known.
    pub grant_max_mib: u32,
    /// UTF-8, padded with NUL: why it was refused, for the user.
    pub reason: [u8; 128],
}

/// Feature bits from here on are habits of a client by which its memory is held only while the device needs it. In a
/// hello: the client can; in a welcome: it should. This one: a task asks at its first use of the device, not at its
/// begin.
pub const FEATURE_LATE_RESERVATION: u64 = 2;
/// Data that is copied to the device before the task has memory there waits in host memory.
pub const FEATURE_EARLY_COPIES: u64 = 4;
/// A task asks for what is in use at once, not for what is allocated.
pub const FEATURE_LIVE_REQUIREMENT: u64 = 8;
/// Copies of pageable memory go through a pinned ring.
pub const FEATURE_FAST_COPIES: u64 = 16;
/// The uuids of the daemon's devices follow the welcome ([`Greeting`]).
pub const FEATURE_DEVICES: u64 = 32;
/// What the client holds belongs to its process: it stays when the connection is closed, until the process ends. For
/// memory that is reserved for a program that does not know of the connection and may close it.
pub const FEATURE_HELD_BY_PROCESS: u64 = 128;
/// Every feature bit that a program's own client asks for.
pub const FEATURES: u64 = FEATURE_RESUME
    | FEATURE_DEVICES
    | FEATURE_LATE_RESERVATION
    | FEATURE_EARLY_COPIES
    | FEATURE_LIVE_REQUIREMENT
    | FEATURE_FAST_COPIES;

/// Shift of the priority in a hello's features.
const PRIORITY_SHIFT: u32 = u64::BITS - 8;
const _: () = assert!((FEATURES | FEATURE_HELD_BY_PROCESS) >> PRIORITY_SHIFT == 0);

pub const WELCOME_OK: u32 = 0;
pub const WELCOME_VERSION: u32 = 1;
pub const WELCOME_QUOTA: u32 = 2;
pub const WELCOME_MALFORMED: u32 = 3;
pub const WELCOME_RESOURCES: u32 = 4;
pub const WELCOME_STRANGER: u32 = 5;
pub const WELCOME_DENIED: u32 = 6;

/// Size of the request page, as it is announced: a constant far below 4 GiB.
pub const REQUEST_PAGE_BYTES: u32 = size_of::<RequestPage>() as u32;
/// Size of the reply page, as it is announced.
pub const REPLY_PAGE_BYTES: u32 = size_of::<ReplyPage>() as u32;

/// Why a first packet is refused; [`Refusal::status`] is what goes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the first packet has {bytes} bytes, not the {expected} of a hello", expected = size_of::<Hello>())]
    Length { bytes: usize },
    #[error("the first packet does not begin with the magic word (not an Eager client?)")]
    Magic,
    #[error("the program speaks protocol {major}.{minor}, this daemon {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}")]
    Version { major: u16, minor: u16 },
    #[error(
        "pages of {request} and {reply} bytes expected, this daemon has {REQUEST_PAGE_BYTES} and {REPLY_PAGE_BYTES}"
    )]
    Pages { request: u32, reply: u32 },
    #[error("the daemon serves its limit of {limit} clients")]
    Quota { limit: usize },
    #[error("uid {uid} has its limit of {limit} clients")]
    UserQuota { uid: u32, limit: usize },
    #[error("uid {uid} is not served here")]
    Denied { uid: u32 },
    #[error("this program is not the client {client} that was connected before")]
    Stranger { client: u64 },
    #[error("the daemon could not make the shared pages")]
    Resources,
}

impl Refusal {
    pub fn status(&self) -> u32 {
        match self {
            Refusal::Length { .. } | Refusal::Magic => WELCOME_MALFORMED,
            Refusal::Version { .. } | Refusal::Pages { .. } => WELCOME_VERSION,
            Refusal::Quota { .. } | Refusal::UserQuota { .. } => WELCOME_QUOTA,
            Refusal::Denied { .. } => WELCOME_DENIED,
            Refusal::Stranger { .. } => WELCOME_STRANGER,
            Refusal::Resources => WELCOME_RESOURCES,
        }
    }
}

impl Hello {
    /// The hello of a client of this build.
    pub fn new(label: &str) -> Hello {
        Hello {
            magic: MAGIC,
            major: PROTOCOL_MAJOR,
            minor: PROTOCOL_MINOR,
            features: FEATURES,
            request_page_bytes: REQUEST_PAGE_BYTES,
            reply_page_bytes: REPLY_PAGE_BYTES,
            label: text::pack(label),
        }
    }

    /// The hello of a program whose memory does not come by name, because the compiler does not see all uses of it.
    pub fn uninformed(label: &str) -> Hello {
        let by_name = FEATURE_LATE_RESERVATION | FEATURE_EARLY_COPIES | FEATURE_LIVE_REQUIREMENT;
        Hello { features: FEATURES & !by_name, ..Hello::new(label) }
    }

    /// This hello with a priority for the program's tasks among those of its user: a signed number in the highest eight
    /// bits of the features. A daemon of an earlier release ignores these bits.
    pub fn with_priority(self, priority: i8) -> Hello {
        let kept = self.features & (u64::MAX >> 8);
        Hello { features: kept | u64::from(priority.cast_unsigned()) << PRIORITY_SHIFT, ..self }
    }

    /// The hello of a client whose process holds what it is granted ([`FEATURE_HELD_BY_PROCESS`]).
    pub fn held_by_process(self) -> Hello {
        Hello { features: self.features | FEATURE_HELD_BY_PROCESS, ..self }
    }

    /// True if what the client holds stays until its process ends, also when the connection is closed.
    pub fn is_held_by_process(&self) -> bool {
        self.features & FEATURE_HELD_BY_PROCESS != 0
    }

    /// 0 is the default; higher priorities go first.
    pub fn priority(&self) -> i8 {
        self.features.to_be_bytes()[0].cast_signed()
    }

    /// True if the client's tasks can ask late, and whole, for memory that calls name. Clients of earlier releases
    /// claim so in any case.
    pub fn comes_by_name(&self) -> bool {
        self.features & FEATURE_LATE_RESERVATION != 0
    }

    /// Checks a first packet. A client of a higher minor is served; it may use features only when the answer grants
    /// them.
    pub fn decode(packet: &[u8]) -> Result<Hello, Refusal> {
        let hello = Hello::read_from_bytes(packet).map_err(|_| Refusal::Length { bytes: packet.len() })?;
        if hello.magic != MAGIC {
            return Err(Refusal::Magic);
        }
        if hello.major != PROTOCOL_MAJOR {
            return Err(Refusal::Version { major: hello.major, minor: hello.minor });
        }
        let (request, reply) = (hello.request_page_bytes, hello.reply_page_bytes);
        if request != REQUEST_PAGE_BYTES || reply != REPLY_PAGE_BYTES {
            return Err(Refusal::Pages { request, reply });
        }
        Ok(hello)
    }

    /// The label, safe to print.
    pub fn label(&self) -> String {
        text::unpack(&self.label)
    }
}

impl Opening {
    /// Checks a complete first packet. Trailing bytes that this build does not know are refused, never skipped.
    pub fn decode(packet: &[u8]) -> Result<Opening, Refusal> {
        let bytes = packet.len();
        let (hello, rest) = packet.split_at_checked(size_of::<Hello>()).unwrap_or((packet, &[]));
        let hello = Hello::decode(hello)?;
        if rest.is_empty() {
            return Ok(Opening { hello, resume: None });
        }
        let resume = Resume::read_from_bytes(rest).map_err(|_| Refusal::Length { bytes })?;
        // Minor 0 had no `Resume`, so these bytes have another meaning.
        if hello.minor == 0 || resume.reserved != 0 {
            return Err(Refusal::Length { bytes });
        }
        Ok(Opening { hello, resume: Some(resume) })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut packet = self.hello.as_bytes().to_vec();
        packet.extend(self.resume.iter().flat_map(|resume| resume.as_bytes().iter().copied()));
        packet
    }
}

impl Welcome {
    pub fn accepted(client: u64) -> Welcome {
        Welcome { client, ..Welcome::with(WELCOME_OK, "") }
    }

    /// Grants the features of `asked` that both sides know and no policy decides.
    pub fn granting(self, asked: u64) -> Welcome {
        Welcome { features: asked & (FEATURE_RESUME | FEATURE_HELD_BY_PROCESS), ..self }
    }

    /// Adds what of [`FEATURES`] the client should do (`wanted`), and the most that a task can ever be granted
    /// (`grant_max`, in bytes).
    pub fn with_habits(self, hello: &Hello, wanted: u64, grant_max: u64) -> Welcome {
        let grant_max_mib = u32::try_from(grant_max >> 20).unwrap_or(u32::MAX);
        Welcome { features: self.features | hello.features & wanted, grant_max_mib, ..self }
    }

    pub fn refused(refusal: &Refusal) -> Welcome {
        Welcome::with(refusal.status(), &refusal.to_string())
    }

    fn with(status: u32, reason: &str) -> Welcome {
        Welcome {
            magic: MAGIC,
            major: PROTOCOL_MAJOR,
            minor: PROTOCOL_MINOR,
            features: 0,
            client: 0,
            status,
            grant_max_mib: 0,
            reason: text::pack(reason),
        }
    }

    /// The daemon's sentence for the user, safe to print.
    pub fn reason(&self) -> String {
        text::unpack(&self.reason)
    }
}

/// A GPU's uuid, as CUDA (`CUuuid`) and NVML know it.
pub type Uuid = [u8; 16];

/// Most devices that a daemon serves: four times as many as the largest servers have.
pub const DEVICES_MAX: usize = 64;

/// The complete answer to a hello: the welcome, and for a client that asks for [`FEATURE_DEVICES`] the uuid of each
/// device by its number. Empty where the program sees the devices under the daemon's numbers (virtual GPUs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    pub welcome: Welcome,
    pub devices: Vec<Uuid>,
}

impl Greeting {
    /// Size of the largest greeting.
    pub const BYTES_MAX: usize = size_of::<Welcome>() + DEVICES_MAX * size_of::<Uuid>();

    pub fn new(welcome: Welcome, hello: &Hello, devices: &[Uuid]) -> Greeting {
        let tells = hello.features & FEATURE_DEVICES != 0 && !devices.is_empty();
        let features = welcome.features | if tells { FEATURE_DEVICES } else { 0 };
        let devices = if tells { devices.iter().take(DEVICES_MAX).copied().collect() } else { Vec::new() };
        Greeting { welcome: Welcome { features, ..welcome }, devices }
    }

    pub fn encode(&self) -> Vec<u8> {
        [self.welcome.as_bytes(), self.devices.as_flattened()].concat()
    }

    /// `None` if the packet is not an answer of a daemon.
    pub fn decode(packet: &[u8]) -> Option<Greeting> {
        let (welcome, rest) = packet.split_at_checked(size_of::<Welcome>())?;
        let welcome = Welcome::read_from_bytes(welcome).ok()?;
        let (devices, odd) = rest.as_chunks();
        let tells = welcome.features & FEATURE_DEVICES != 0;
        let is_sound = welcome.magic == MAGIC && odd.is_empty() && tells != devices.is_empty();
        (is_sound && devices.len() <= DEVICES_MAX).then(|| Greeting { welcome, devices: devices.to_vec() })
    }
}

impl From<Welcome> for Greeting {
    fn from(welcome: Welcome) -> Greeting {
        Greeting { welcome, devices: Vec::new() }
    }
}

const _: () = assert!(size_of::<Hello>() == 88 && size_of::<Welcome>() == 160);
const _: () = assert!(size_of::<Resume>() == 16);
