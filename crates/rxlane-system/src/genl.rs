//! Requests over generic netlink: ethtool's family and netdev's.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, Nla, NlasIterator, Parseable, ParseableParametrized,
};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd, nlas::GenlCtrlAttrs};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use crate::datagram::{self, Broken, Raw};
use crate::{SystemError, Tried, dump};

/// A command with its attributes, of any family.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    family: u16,
    pub(crate) cmd: u8,
    pub(crate) attributes: Vec<DefaultNla>,
}

impl GenlFamily for Command {
    fn family_name() -> &'static str {
        ""
    }

    fn family_id(&self) -> u16 {
        self.family
    }

    fn command(&self) -> u8 {
        self.cmd
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Command {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Command {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self {
            family: 0,
            cmd: header.cmd,
            attributes: nested(bytes)?,
        })
    }
}

fn nested(bytes: &[u8]) -> Result<Vec<DefaultNla>, DecodeError> {
    NlasIterator::new(bytes)
        .map(|nla| nla.and_then(|nla| DefaultNla::parse(&nla)))
        .collect()
}

/// An attribute that holds a number.
pub(crate) fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

/// An attribute that holds a byte.
pub(crate) fn byte(kind: u16, value: u8) -> DefaultNla {
    DefaultNla::new(kind, vec![value])
}

/// An attribute that holds others.
pub(crate) fn nest(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    const NLA_F_NESTED: u16 = 0x8000;
    let mut bytes = vec![0; inner.buffer_len()];
    inner.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

/// The value of the attribute of that kind.
fn value(attributes: &[DefaultNla], kind: u16) -> Option<Vec<u8>> {
    // The upper two bits say what is inside.
    let nla = attributes.iter().find(|a| a.kind() & 0x3fff == kind)?;
    let mut bytes = vec![0; nla.value_len()];
    nla.emit_value(&mut bytes);
    Some(bytes)
}

/// The attributes in the attribute of that kind; none where it is missing.
pub(crate) fn inside(attributes: &[DefaultNla], kind: u16) -> Vec<DefaultNla> {
    value(attributes, kind)
        .and_then(|bytes| nested(&bytes).ok())
        .unwrap_or_default()
}

/// The text in the attribute of that kind.
pub(crate) fn text(attributes: &[DefaultNla], kind: u16) -> Option<String> {
    let bytes = value(attributes, kind)?;
    let text = bytes.split(|b| *b == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

/// The number in the attribute of that kind; drivers leave out what they do not have.
pub(crate) fn find(attributes: &[DefaultNla], kind: u16) -> Option<u64> {
    match value(attributes, kind)?[..] {
        [one] => Some(u64::from(one)),
        [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// A family, ready for requests.
pub(crate) struct Family {
    socket: Socket,
    id: u16,
    name: &'static str,
}

impl Family {
    /// Asks the kernel for a family's number.
    pub(crate) fn open(name: &'static str) -> Result<Self, SystemError> {
        let tried = || format!("find the netlink family {name}");
        let mut socket = Socket::new(NETLINK_GENERIC).tried(tried)?;
        socket.bind_auto().tried(tried)?;
        let request = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(name.into())],
        });
        let mut id = None;
        exchange(&socket, request, NLM_F_ACK, name, |answer| {
            id = id.or(answer.payload.nlas.iter().find_map(|nla| match nla {
                GenlCtrlAttrs::FamilyId(id) => Some(*id),
                _ => None,
            }));
        })?;
        let id = id.ok_or_else(|| SystemError::Answer {
            what: tried(),
            why: "it has no number".into(),
        })?;
        Ok(Self { socket, id, name })
    }

    /// Sends a command and hands over the attributes of each answer.
    fn send(
        &self,
        cmd: u8,
        attributes: Vec<DefaultNla>,
        flags: u16,
        mut found: impl FnMut(Vec<DefaultNla>),
    ) -> Result<(), SystemError> {
        let request = GenlMessage::from_payload(Command {
            family: self.id,
            cmd,
            attributes,
        });
        exchange(&self.socket, request, flags, self.name, |answer| {
            found(answer.payload.attributes);
        })
    }

    /// All answers to a command.
    pub(crate) fn dump(
        &self,
        cmd: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<Vec<DefaultNla>>, SystemError> {
        dump::steadily(self.name, || {
            let mut all = Vec::new();
            self.send(cmd, attributes.clone(), NLM_F_DUMP, |a| all.push(a))?;
            Ok(all)
        })
    }

    /// One answer; empty when there is none.
    pub(crate) fn ask(
        &self,
        cmd: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<DefaultNla>, SystemError> {
        let mut answer = Vec::new();
        self.send(cmd, attributes, NLM_F_ACK, |a| answer = a)?;
        Ok(answer)
    }
}

fn exchange<F>(
    socket: &Socket,
    mut request: GenlMessage<F>,
    flags: u16,
    what: &str,
    mut found: impl FnMut(GenlMessage<F>),
) -> Result<(), SystemError>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Clone + std::fmt::Debug,
{
    let tried = || format!("ask the netlink family {what}");
    request.finalize();
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket
        .send_to(&bytes, &SocketAddr::new(0, 0), 0)
        .tried(tried)?;
    let mut garbled = None;
    let read = datagram::read_dump(
        || datagram::receive(socket),
        |raw| match parsed(raw, what) {
            Ok(inner) => found(inner),
            Err(error) => garbled = Some(error),
        },
    );
    match (read, garbled) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(error)) => Err(error),
        (Err(Broken::Refused(source)), _) => Err(source).tried(tried),
        (Err(Broken::Again), _) => Err(SystemError::Unsteady { what: tried() }),
    }
}

/// What an answer says.
pub(crate) fn parsed<F>(answer: Raw<'_>, what: &str) -> Result<GenlMessage<F>, SystemError>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Clone + std::fmt::Debug,
{
    let not_understood = |why: String| SystemError::Answer {
        what: format!("ask the netlink family {what}"),
        why,
    };
    let message = NetlinkMessage::<GenlMessage<F>>::deserialize(answer.whole);
    match message.map_err(|e| not_understood(e.to_string()))?.payload {
        NetlinkPayload::InnerMessage(inner) => Ok(inner),
        _ => Err(not_understood("it is of no family".into())),
    }
}
