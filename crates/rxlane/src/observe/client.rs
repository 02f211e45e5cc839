//! Asks a running daemon over its status socket, for whoever may not read its maps.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::http::DEADLINE;
use super::listener::GROUP;
use crate::one_line;

/// Bytes of an answer; a router with 64 ports and 8 classes needs a tenth of it.
const MAX_ANSWER: u64 = 4 << 20;

/// What the daemon answers to a path.
///
/// # Errors
/// One line, with what to do.
pub(crate) fn get(socket: &Path, path: &str) -> Result<String, String> {
    let mut stream = UnixStream::connect(socket).map_err(|e| no_answer(socket, &e))?;
    let failed = |e: std::io::Error| format!("{}: {}", socket.display(), one_line(e));
    stream.set_read_timeout(Some(DEADLINE)).map_err(failed)?;
    stream.set_write_timeout(Some(DEADLINE)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: rxlane\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut answer);
    read.map_err(failed)?;
    body(&answer).map_err(|message| format!("{}: {message}", socket.display()))
}

fn body(answer: &[u8]) -> Result<String, String> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let start = match response.parse(answer) {
        Ok(httparse::Status::Complete(start)) => start,
        _ => {
            return Err(
                "the daemon did not answer; it may have too many to answer to: try again".into(),
            );
        }
    };
    let text = String::from_utf8_lossy(&answer[start..]).into_owned();
    match response.code {
        Some(200) => Ok(text),
        _ => Err(one_line(text)),
    }
}

fn no_answer(socket: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{} is for root and the group {GROUP}: sudo rxlane status, or sudo adduser $USER {GROUP} and log in again",
            socket.display()
        ),
        ErrorKind::NotFound => "no router runs in this network namespace, or one whose daemon made no socket: start one with `sudo rxlane run`, or look as root (sudo rxlane status)".into(),
        ErrorKind::ConnectionRefused => "the daemon is gone; its lanes may still forward: sudo rxlane status reads them".into(),
        _ => format!("{}: {}", socket.display(), one_line(error)),
    }
}
