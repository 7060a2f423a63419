//! `SOCK_SEQPACKET` packets over Unix sockets, with descriptors.
//!
//! Trap: a received descriptor is open before the packet is looked at. A caller of [`receive_with_descriptors`] owns
//! all that came; code that expects none must use [`receive`], so that the kernel drops them.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    bind, connect, listen, recv, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

/// Connections that wait to be accepted; a further one waits in the kernel until there is room, in order of arrival.
/// Few, because each program that connects waits behind all of them (specification S-713).
pub const BACKLOG: i32 = 512;

/// A listening socket at `path`, not blocking, closed on exec.
pub fn bind_seqpacket(path: &Path) -> nix::Result<OwnedFd> {
    let listener = seqpacket(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
    bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok(listener)
}

/// A socket connected to `path`, blocking, closed on exec. Both the connect and later blocking calls end with `EAGAIN`
/// after `timeout`.
pub fn connect_seqpacket(path: &Path, timeout: Duration) -> nix::Result<OwnedFd> {
    let address = UnixAddr::new(path)?;
    let socket = seqpacket(SockFlag::SOCK_CLOEXEC)?;
    // A zero timeout would mean no timeout.
    let micros = i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX).max(1);
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::microseconds(micros))?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::microseconds(micros))?;
    // A signal to the program must not make its connect fail.
    while let Err(errno) = connect(socket.as_raw_fd(), &address) {
        if errno != Errno::EINTR {
            return Err(errno);
        }
    }
    Ok(socket)
}

fn seqpacket(flags: SockFlag) -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

/// Makes `kept` refer to what `fresh` refers to; what it referred to is closed. Other threads may be using it.
pub(crate) fn take_place(kept: &OwnedFd, fresh: OwnedFd) -> nix::Result<()> {
    // SAFETY: `kept` is open and owned by the caller, and stays so: the kernel only changes what the number refers to,
    // at once.
    let same = unsafe { nix::unistd::dup3_raw(&fresh, kept.as_raw_fd(), nix::fcntl::OFlag::O_CLOEXEC) }?;
    // `same` is the number that `kept` owns.
    let _ = same.into_raw_fd();
    Ok(())
}

/// Sends one packet without blocking and without SIGPIPE.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[RawFd]) -> nix::Result<()> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &[] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)?;
    Ok(())
}

/// Receives one packet without blocking; descriptors that came with it are dropped by the kernel. Returns the packet's
/// real length, which may be more than fitted into `buffer`; 0 at the end of the connection (or an empty packet).
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<usize> {
    recv(socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC)
}

/// Receives one packet and at most two descriptors, waiting as long as the socket's receive timeout.
pub fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> nix::Result<(usize, Vec<OwnedFd>)> {
    // An interrupted call took no packet: a signal to the program must not cost it the answer.
    while let Err(errno) = recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK) {
        if errno != Errno::EINTR {
            return Err(errno);
        }
    }
    let mut control = nix::cmsg_space!([RawFd; 2]);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
    let mut owned = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            // SAFETY: the kernel has just opened these descriptors for this process, and nothing else knows them.
            owned.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Err(Errno::EMSGSIZE);
    }
    // The daemon sends no more than there is room for, so this process has no descriptor left.
    if message.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(Errno::EMFILE);
    }
    Ok((message.bytes, owned))
}
