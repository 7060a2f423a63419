//! The first two packets. Fixed size, little endian, no padding; anything else on the socket closes the connection.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Client to daemon.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Hello {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    /// Feature bits the client understands.
    pub features: u64,
    /// Size of the pages it was built for; both must match for one major.
    pub request_page_bytes: u32,
    pub reply_page_bytes: u32,
    /// UTF-8, padded with NUL: name of the program in tables.
    pub label: [u8; 64],
}

/// Daemon to client, with two descriptors attached when `status` is [`WELCOME_OK`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Welcome {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    /// Feature bits both understand.
    pub features: u64,
    /// Id of this client in tables and journal.
    pub client: u64,
    /// [`WELCOME_OK`] or a refusal.
    pub status: u32,
    pub reserved: u32,
    /// UTF-8, padded with NUL: why it was refused, for the user.
    pub reason: [u8; 128],
}

pub const WELCOME_OK: u32 = 0;
pub const WELCOME_VERSION: u32 = 1;
pub const WELCOME_QUOTA: u32 = 2;
pub const WELCOME_MALFORMED: u32 = 3;
pub const WELCOME_RESOURCES: u32 = 4;

const _: () = assert!(size_of::<Hello>() == 88 && size_of::<Welcome>() == 160);
