//! What a router is told to do: the file `rxlane.toml`, and the [`RouterConfig`] that it means.
//!
//! [`parse`] turns the text of a file into a checked value, or says of everything that is wrong in which line it is and what to
//! do. [`to_toml`] writes a value as a file again. [`schema`] describes the file for editors.
//!
//! ```
//! let config = rxlane_config::parse(r#"
//!     ports = ["wan0", "lan0"]
//!
//!     [[class]]
//!     name = "voice"
//!     lane = "express"
//!     trust = "firewall"
//!     match = [{ dscp = "EF" }]
//!
//!     [[class]]
//!     name = "rest"
//!     lane = "stack"
//! "#)?;
//! assert_eq!(config.classes[0].name, "voice");
//! assert_eq!(rxlane_config::parse(&rxlane_config::to_toml(&config))?, config);
//! # Ok::<(), rxlane_config::Complaints>(())
//! ```

mod doubt;
mod encoding;
mod engine;
mod error;
mod excerpt;
mod file;
mod flows;
mod lines;
mod listen;
mod names;
mod place;
mod rate;
mod resolve;
mod rings;
mod router;
mod rules;
mod shape;
mod write;

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

pub use error::{Complaint, Complaints, ConfigError, EngineError};
pub use flows::{Collector, Flows, Transport};
pub use lines::{ClassLines, lines};
pub use listen::Listen;
pub use names::MAX_PORTS;
use place::{Mistakes, Place};
pub use rings::{MAX_CORES, weight_of_nice};
pub use router::{
    Copy, Datapath, Egress, EngineConfig, Ingress, Priority, RINGS, RouterConfig, ring_cores,
    strategy,
};
pub use rules::{protocol_name, protocol_number};
pub use write::to_toml;

/// Bytes of a configuration file. The longest that makes sense has [`MAX_PREFIXES`](rxlane_policy::prefixes::MAX_PREFIXES) IPv6 prefixes,
/// one a line.
pub const MAX_BYTES: u64 = 8 << 20;

/// The name that stands for standard input, as usual.
pub const STANDARD_INPUT: &str = "-";

/// All that a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// What packets meet; all hosts of the policy take it.
    pub router: RouterConfig,
    /// Whether it is sampled how long packets are inside of the router.
    pub latency: bool,
    /// Whether packets are only looked at, and all left to the Linux stack.
    pub observe: bool,
    /// How flows are counted, if they are.
    pub flows: Option<Flows>,
    /// Where the daemon shows its metrics, if anywhere.
    pub metrics: Option<Listen>,
    /// What is hardly meant, though a router can do it.
    pub warnings: Vec<Complaint>,
}

/// Reads and checks a configuration file; `-` is standard input.
///
/// # Errors
/// [`ConfigError`], always with the lines where the cures go.
pub fn load(path: &Path) -> Result<Configuration, ConfigError> {
    let text = text_of(path)?;
    parse_all(&text).map_err(|complaints| ConfigError::Wrong {
        path: path.into(),
        complaints,
    })
}

/// The text of a configuration file; `-` is standard input.
///
/// # Errors
/// When it cannot be read, is longer than [`MAX_BYTES`], or is no UTF-8.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    let cannot = |source| ConfigError::Read {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let input: &mut dyn Read = if path == Path::new(STANDARD_INPUT) {
        &mut std::io::stdin().lock()
    } else {
        &mut std::fs::File::open(path).map_err(cannot)?
    };
    input
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ConfigError::TooLong { path: path.into() });
    }
    encoding::text(bytes).map_err(|why| ConfigError::Encoding {
        path: path.into(),
        why,
    })
}

/// Reads and checks the text of a configuration file, for its router.
///
/// # Errors
/// As [`parse_all`].
pub fn parse(text: &str) -> Result<RouterConfig, Complaints> {
    parse_all(text).map(|c| c.router)
}

/// Reads and checks the text of a configuration file.
///
/// # Errors
/// [`Complaints`]: all that is wrong with its form, or else all that makes no sense, with the lines where the cures go.
pub fn parse_all(text: &str) -> Result<Configuration, Complaints> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let complaint = |e: &toml::de::Error| {
            let span = e.span().unwrap_or_default();
            let message = syntax(text, &span, e.message());
            (span, message)
        };
        return Err(Complaints::new(
            text,
            errors.iter().map(complaint).collect(),
        ));
    }
    let mut mistakes = Mistakes::default();
    shape::check(&table, text, schema().as_value(), &mut mistakes);
    let spans = |mistakes: Mistakes| -> Vec<(Range<usize>, String)> {
        let found = mistakes.0.into_iter();
        found.map(|m| (m.place.span(&table), m.message)).collect()
    };
    if !mistakes.0.is_empty() {
        return Err(Complaints::new(text, spans(mistakes)));
    }
    let mut file = file::File::deserialize(Deserializer::from(table.clone())).map_err(|e| {
        let message = e.message().replace('\n', " ");
        Complaints::new(text, vec![(e.span().unwrap_or_default(), message)])
    })?;
    let metrics = file.metrics.take().and_then(|m| {
        let at = Place::top("metrics").key("listen");
        mistakes.keep(&at, m.listen.parse())
    });
    let flows = file
        .flows
        .take()
        .and_then(|f| flows::read(f, &mut mistakes));
    if flows.is_some() && file.datapath == file::Datapath::Afxdp {
        mistakes.add(
            &Place::top("flows"),
            "[flows] needs datapath = \"express\": the engine counts its packets by class alone",
        );
    }
    let latency = file.latency.unwrap_or(true);
    let observe = file.mode == file::Mode::Observe;
    if observe && file.datapath == file::Datapath::Afxdp {
        mistakes.add(
            &Place::top("mode"),
            "mode = \"observe\" needs datapath = \"express\": the engine takes packets away from the kernel, whatever becomes of them",
        );
    }
    let mut doubts = Mistakes::default();
    doubt::of(&file, &mut doubts);
    let router = resolve::resolve(file, &mut mistakes);
    match router.filter(|_| mistakes.0.is_empty()) {
        Some(router) => Ok(Configuration {
            router,
            latency,
            observe,
            flows,
            metrics,
            warnings: Complaints::new(text, spans(doubts)).all,
        }),
        None => Err(Complaints::new(text, spans(mistakes))),
    }
}

/// What the parser says, with a cure for what people get wrong most.
fn syntax(text: &str, span: &Range<usize>, message: &str) -> String {
    let there = text.get(span.clone()).unwrap_or_default();
    if message == "duplicate key" && there.contains("class") {
        return "a second `[class]`: write [[class]] with two brackets before each class".into();
    }
    if message == "duplicate key" {
        return format!("`{there}` stands here twice: remove one");
    }
    message.replace('\n', " ")
}

/// The JSON Schema of the file: editors complete and check keys with it.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(file::File)
}
