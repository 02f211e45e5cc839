//! The messages of netlink datagrams, and when a dump or a stream of news cannot be believed.
//!
//! Guarantee: nothing is passed over in silence. A length that lies, a dump during which something changed, and news that
//! did not fit into the socket's buffer are told, so that whoever follows the kernel reads everything anew.

use std::io;

use netlink_sys::Socket;
pub(crate) use rxlane_ruleset::attribute::{Garbled, checked_attributes as attributes};

/// Kinds and flags of include/uapi/linux/netlink.h.
const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
const DUMP_INTERRUPTED: u16 = 0x10;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) body: &'a [u8],
    /// With its header.
    pub(crate) whole: &'a [u8],
}

/// The messages of a datagram; after the first that is garbled there are no more.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Raw<'_>, Garbled>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = message(rest);
        let len = found.map_or(rest.len(), |m| m.whole.len().next_multiple_of(4));
        rest = rest.get(len..).unwrap_or_default();
        Some(found)
    })
}

fn message(bytes: &[u8]) -> Result<Raw<'_>, Garbled> {
    let head = bytes.get(..HEADER).ok_or(Garbled)?;
    let word = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let len = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
    Ok(Raw {
        kind: word(4),
        flags: word(6),
        body: bytes.get(HEADER..len).ok_or(Garbled)?,
        whole: bytes.get(..len).ok_or(Garbled)?,
    })
}

/// A number in the machine's byte order.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Why a dump ended before it was complete.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It must be asked for again: something changed meanwhile, or an answer was garbled or lost.
    Again,
    /// The kernel refuses.
    Refused(io::Error),
}

/// Hands over the messages of a dump, whose datagrams `receive` returns, until the kernel says that it is done.
pub(crate) fn read_dump(
    mut receive: impl FnMut() -> io::Result<Vec<u8>>,
    mut found: impl FnMut(Raw<'_>),
) -> Result<(), Broken> {
    loop {
        let datagram = match receive() {
            Ok(datagram) => datagram,
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Err(Broken::Again),
            Err(e) => return Err(Broken::Refused(e)),
        };
        if read_messages(&datagram, &mut found)? {
            return Ok(());
        }
    }
}

/// Hands over the messages of a datagram of a dump. True: it was the last one.
pub(crate) fn read_messages(
    datagram: &[u8],
    mut found: impl FnMut(Raw<'_>),
) -> Result<bool, Broken> {
    // Without any message nothing is known, not even whether more comes.
    if datagram.is_empty() {
        return Err(Broken::Again);
    }
    for message in messages(datagram) {
        let message = message.map_err(|Garbled| Broken::Again)?;
        if message.flags & DUMP_INTERRUPTED != 0 {
            return Err(Broken::Again);
        }
        match message.kind {
            DONE | ERROR => return outcome(message.body).map(|()| true),
            NOOP | OVERRUN => return Err(Broken::Again),
            _ => found(message),
        }
    }
    Ok(false)
}

/// What the kernel says at the end: a negative number of an error, or none.
fn outcome(body: &[u8]) -> Result<(), Broken> {
    match body.get(..4).and_then(number).map(|code| code as i32) {
        Some(code) if code < 0 => Err(Broken::Refused(io::Error::from_raw_os_error(-code))),
        _ => Ok(()),
    }
}

/// Datagrams of news taken in at a time: strangers can have the kernel send them as fast as they are read.
const AT_ONCE: usize = 8192;

/// Hands over news, whose datagrams `receive` returns, until none is left, or so many have come that the rest waits for the next call.
/// False: some are lost, and the others that had come are thrown away, because news from before a dump must not be applied after it.
pub(crate) fn read_news(
    mut receive: impl FnMut() -> io::Result<Vec<u8>>,
    mut news: impl FnMut(Raw<'_>) -> Result<(), Garbled>,
) -> io::Result<bool> {
    let (mut complete, mut taken) = (true, 0);
    // Once some are lost the kernel drops all that come until none is left, without a word.
    while !complete || taken < AT_ONCE {
        taken += 1;
        let datagram = match receive() {
            Ok(datagram) => datagram,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(complete),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                complete = false;
                continue;
            }
            Err(e) => return Err(e),
        };
        if !complete {
            continue;
        }
        complete = messages(&datagram).all(|m| m.and_then(&mut news).is_ok());
    }
    Ok(complete)
}

/// The next datagram that the kernel has sent. Others may send to a netlink socket, too; they are not listened to.
pub(crate) fn receive(socket: &Socket) -> io::Result<Vec<u8>> {
    const KERNEL: u32 = 0;
    /// The kernel fills datagrams of a dump up to the room that it has seen, and this at most. Each begins at the first element of a set
    /// anew, so a large set takes long in small pieces.
    const ROOM: usize = 32 << 10;
    let mut datagram: Vec<u8> = Vec::with_capacity(ROOM);
    loop {
        datagram.clear();
        let look = libc::MSG_PEEK | libc::MSG_TRUNC;
        let (len, _) = socket.recv_from(&mut datagram, look)?;
        datagram.clear();
        datagram.reserve(len);
        let (_, from) = socket.recv_from(&mut datagram, 0)?;
        if from.port_number() == KERNEL {
            return Ok(datagram);
        }
    }
}

/// Bytes that a test writes in hexadecimal, with spaces where they help.
#[cfg(test)]
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn bytes(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut all = Vec::from(((HEADER + body.len()) as u32).to_ne_bytes());
        all.extend(kind.to_ne_bytes());
        all.extend(flags.to_ne_bytes());
        all.extend([0; 8]);
        all.extend(body);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    }

    /// What a socket returns, one after the other; then nothing is there.
    fn socket(answers: Vec<io::Result<Vec<u8>>>) -> impl FnMut() -> io::Result<Vec<u8>> {
        let mut answers = VecDeque::from(answers);
        move || {
            let empty = || Err(io::ErrorKind::WouldBlock.into());
            answers.pop_front().unwrap_or_else(empty)
        }
    }

    const ROUTE: u16 = 24;

    fn dump(answers: Vec<io::Result<Vec<u8>>>) -> (usize, Result<(), Broken>) {
        let mut found = 0;
        let outcome = read_dump(socket(answers), |_| found += 1);
        (found, outcome)
    }

    fn done() -> Vec<u8> {
        bytes(DONE, 0, &0i32.to_ne_bytes())
    }

    #[test]
    fn news_are_taken_in_so_many_at_a_time_but_lost_ones_all() {
        let news = || (0..AT_ONCE + 5).map(|_| Ok(bytes(28, 0, &[1])));
        let mut receive = socket(news().collect());
        let mut read = |count: &mut usize| {
            read_news(&mut receive, |_| {
                *count += 1;
                Ok(())
            })
        };
        let mut count = 0;
        assert!(read(&mut count).is_ok_and(|complete| complete));
        assert_eq!(count, AT_ONCE);
        assert!(read(&mut count).is_ok_and(|complete| complete));
        assert_eq!(count, AT_ONCE + 5);
        let lost = io::Error::from_raw_os_error(libc::ENOBUFS);
        let mut receive = socket(std::iter::once(Err(lost)).chain(news()).collect());
        let complete = read_news(&mut receive, |_| Ok(()));
        assert!(complete.is_ok_and(|complete| !complete));
        assert!(receive().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_dump_is_complete_when_the_kernel_says_so() {
        let two = [bytes(ROUTE, 2, &[1; 12]), bytes(ROUTE, 2, &[2; 13])].concat();
        let (found, outcome) = dump(vec![Ok(two), Ok(done())]);
        assert!(found == 2 && outcome.is_ok());
        let refused = bytes(ERROR, 0, &(-libc::EPERM).to_ne_bytes());
        let failed = bytes(DONE, 0, &(-libc::EMSGSIZE).to_ne_bytes());
        for (end, code) in [(refused, libc::EPERM), (failed, libc::EMSGSIZE)] {
            let (_, outcome) = dump(vec![Ok(bytes(ROUTE, 2, &[])), Ok(end)]);
            let Err(Broken::Refused(e)) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(e.raw_os_error(), Some(code));
        }
    }

    #[test]
    fn a_dump_during_which_something_changed_or_that_cannot_be_read_is_asked_for_again() {
        let good = || bytes(ROUTE, 2, &[7; 12]);
        let mut long = good();
        long[0] = 255;
        let mut short = good();
        short[0] = 15;
        let interrupted = bytes(ROUTE, DUMP_INTERRUPTED, &[0; 12]);
        let interrupted_end = bytes(DONE, DUMP_INTERRUPTED, &0i32.to_ne_bytes());
        let lost = io::Error::from_raw_os_error(libc::ENOBUFS);
        let answers: [io::Result<Vec<u8>>; 7] = [
            Ok(long),
            Ok(short),
            Ok(good()[..15].to_vec()),
            Ok(Vec::new()),
            Ok(interrupted),
            Ok(interrupted_end),
            Err(lost),
        ];
        for answer in answers {
            let what = format!("{answer:?}");
            let (_, outcome) = dump(vec![Ok(good()), answer]);
            assert!(matches!(outcome, Err(Broken::Again)), "{what}: {outcome:?}");
        }
    }

    #[test]
    fn lost_news_make_all_news_before_the_next_dump_worthless() {
        let lost = || io::Error::from_raw_os_error(libc::ENOBUFS);
        let one = || bytes(ROUTE, 0, &[1; 12]);
        let mut garbled = one();
        garbled[0] = 200;
        let read = |answers| {
            let mut seen = 0;
            let complete = read_news(socket(answers), |m| {
                seen += 1;
                if m.body.is_empty() {
                    return Err(Garbled);
                }
                Ok(())
            });
            (seen, complete.unwrap())
        };
        assert_eq!(
            read(vec![Ok([one(), one()].concat()), Ok(one())]),
            (3, true)
        );
        assert_eq!(read(vec![Ok(one()), Err(lost()), Ok(one())]), (1, false));
        let after = [one(), garbled, one()].concat();
        assert_eq!(read(vec![Ok(after), Ok(one())]), (1, false));
        // A message that its reader does not understand is lost, too.
        assert_eq!(read(vec![Ok(bytes(ROUTE, 0, &[])), Ok(one())]), (1, false));
    }

    #[test]
    fn attributes_whose_lengths_lie_are_told() {
        let good = [8u8, 0, 1, 0x80, 1, 2, 3, 4, 5, 0, 2, 0, 9];
        let found: Vec<_> = attributes(&good).collect();
        assert_eq!(found, [Ok((1, &good[4..8])), Ok((2, &good[12..]))]);
        for len in [0u8, 3, 9, 255] {
            let mut bad = [8u8, 0, 1, 0, 1, 2, 3, 4];
            bad[0] = len;
            let found: Vec<_> = attributes(&bad).collect();
            assert_eq!(found, [Err(Garbled)], "{len}");
        }
    }
}
