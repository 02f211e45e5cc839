//! Where a daemon shows its metrics.

use std::net::SocketAddr;
use std::path::PathBuf;

/// An address, or a socket in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a socket.
    Unix(PathBuf),
}

/// Bytes of a socket's path, without the one that ends it (`sockaddr_un`).
const MAX_PATH: usize = 107;

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return if text.len() > MAX_PATH || text.contains('\0') {
                Err(format!("a socket's path has at most {MAX_PATH} bytes"))
            } else {
                Ok(Self::Unix(text.into()))
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Self::Tcp(address)),
            _ => Err(format!(
                "cannot listen on `{text}`: write \"127.0.0.1:9817\", \"[::1]:9817\" or \"/run/rxlane/metrics.sock\""
            )),
        }
    }
}

impl Listen {
    /// As a file says it.
    #[must_use]
    pub fn as_written(&self) -> String {
        match self {
            Self::Tcp(address) => address.to_string(),
            Self::Unix(path) => path.display().to_string(),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/metrics"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_told_apart() {
        assert_eq!(
            "127.0.0.1:9817".parse(),
            Ok(Listen::Tcp(([127, 0, 0, 1], 9817).into()))
        );
        assert_eq!("/run/x".parse(), Ok(Listen::Unix("/run/x".into())));
        for wrong in [
            "",
            "9817",
            "localhost:9817",
            "127.0.0.1",
            "[::1]:0",
            "run/x",
        ] {
            let message = wrong.parse::<Listen>().unwrap_err();
            assert!(message.contains("127.0.0.1:9817"), "{message}");
        }
        for listen in ["127.0.0.1:9817", "[::1]:9817", "/run/x"] {
            let read: Listen = listen.parse().unwrap();
            assert_eq!(read.as_written(), listen);
        }
        assert!(format!("/{}", "x".repeat(200)).parse::<Listen>().is_err());
    }
}
