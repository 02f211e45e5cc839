//! Expressions of nftables as a kernel has them (include/uapi/linux/netfilter/nf_tables.h).

/// What a rule says at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// The packet goes no further: it is dropped, or somebody else's.
    Drop,
    Continue,
    Return,
    Jump(String),
    Goto(String),
    /// User space says, of each packet.
    Queue(Option<u16>),
}

/// Registers hold words of 32 bits.
pub(crate) const WORDS: usize = 20;

/// The first word of a register, if it is one for data.
pub(crate) type Register = Option<usize>;

/// What packets are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Link,
    Network,
    Transport,
    /// What follows the transport header, and what is not known here.
    Inside,
}

/// Bytes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) base: Base,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Span {
    pub(crate) fn end(self) -> usize {
        self.offset.saturating_add(self.len)
    }
}

/// An option of IP or TCP, or an extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) kind: Option<u8>,
    /// `enum nft_exthdr_op`.
    pub(crate) of: u32,
    /// Whether it is there is asked, not what it has.
    pub(crate) presence: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// Counts, or remembers when it last saw a packet.
    Counter,
    /// Has a flowtable take the flow.
    Offload,
    Meta {
        key: u32,
        to: Register,
    },
    SetMeta {
        key: u32,
        from: Register,
    },
    Ct {
        key: u32,
        direction: Option<u8>,
        to: Register,
    },
    SetCt {
        key: u32,
        from: Register,
    },
    Payload {
        span: Span,
        to: Register,
    },
    SetPayload {
        span: Span,
        from: Register,
    },
    Extension {
        extension: Extension,
        to: Register,
    },
    SetExtension(Extension),
    /// `(from & mask) ^ xor`.
    Mask {
        from: Register,
        to: Register,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    /// Any other operation on bits.
    Bits {
        from: Register,
        to: Register,
    },
    ByteOrder {
        from: Register,
        to: Register,
        len: usize,
        size: usize,
    },
    Compare {
        from: Register,
        /// `enum nft_cmp_ops`.
        op: u32,
        with: Vec<u8>,
    },
    Range {
        from: Register,
        inverted: bool,
        first: Vec<u8>,
        last: Vec<u8>,
    },
    Lookup {
        set: String,
        from: Register,
        gives: Gives,
        inverted: bool,
    },
    Value {
        to: Register,
        bytes: Vec<u8>,
    },
    Verdict(Verdict),
    /// What a routing table, a socket or a tunnel says, the same for a flow.
    Asks {
        what: &'static str,
        to: Register,
    },
    /// Of registers, or symmetric: of addresses and ports.
    Hash {
        from: Register,
        len: usize,
        to: Register,
    },
    ByTurns {
        to: Register,
    },
    /// Headers in a tunnel; what it loads, and where to, is in the expression inside.
    Inner,
    Limit,
    Quota,
    ConnectionLimit,
    /// An object of a kind, or one that a map has for a key.
    Object {
        kind: Option<u32>,
        map: String,
    },
    Dynset {
        set: String,
    },
    Log {
        group: Option<u16>,
    },
    Dup,
    Forward,
    Reject,
    Notrack,
    Tproxy,
    /// To this machine.
    Redirect,
    Nat {
        source: bool,
        address: Given,
        port: Given,
    },
    /// Of x_tables.
    Match {
        name: String,
        revision: u32,
        data: Vec<u8>,
    },
    Target {
        name: String,
        revision: u32,
        data: Vec<u8>,
    },
    Unknown(String),
}

/// What an address or port is translated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// It stays.
    Nothing,
    Value(Register),
    /// One of several, or an address of a device.
    Some,
}

/// What a set is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Membership,
    Verdict,
    Data(Register),
}
