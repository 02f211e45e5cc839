//! The little of HTTP/1.1 that reading metrics takes: one GET a connection, within a time and a size (RFC 9112).

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listener::Connection;

/// A whole exchange takes no longer, however slowly the other side reads or writes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// Nor does it last longer until the request is there.
const REQUEST: Duration = Duration::from_secs(2);
/// Bytes of a request. A scraper sends a few hundred.
const MAX_REQUEST: usize = 8192;
const MAX_HEADERS: usize = 64;

/// What is answered to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Arc<str>,
}

impl Response {
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: (body.into() + "\n").into(),
        }
    }
}

/// Reads a request and answers it. Whoever is too slow, sends too much or goes away is left alone.
pub(crate) fn exchange(mut connection: Connection, answer: impl FnOnce(&str) -> Response) {
    let now = Instant::now();
    let end = now + DEADLINE;
    let response = match request(&mut connection, now + REQUEST) {
        Ok(Request::Get(path)) => answer(&path),
        Ok(Request::Other) => Response::text("405 Method Not Allowed", "only GET is answered here"),
        Ok(Request::Unreadable) => Response::text("400 Bad Request", "this is no HTTP request"),
        Ok(Request::TooLong) => Response::text(
            "431 Request Header Fields Too Large",
            format!("a request has at most {MAX_REQUEST} bytes"),
        ),
        Err(_) => return,
    };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        response.status,
        response.content_type,
        response.body.len()
    );
    let sent = send(&mut connection, head.as_bytes(), end);
    let _ = sent.and_then(|()| send(&mut connection, response.body.as_bytes(), end));
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get(String),
    Other,
    Unreadable,
    TooLong,
}

fn request(from: &mut Connection, end: Instant) -> std::io::Result<Request> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        if let Some(request) = parse(&bytes) {
            return Ok(request);
        }
        if bytes.len() >= MAX_REQUEST {
            return Ok(Request::TooLong);
        }
        from.set_timeout(left(end)?)?;
        match from.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

/// `None` while more is to come.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some("GET"), Some(path)) => {
                Request::Get(path.split('?').next().unwrap_or_default().to_owned())
            }
            _ => Request::Other,
        }),
        Err(httparse::Error::TooManyHeaders) => Some(Request::TooLong),
        Err(_) => Some(Request::Unreadable),
    }
}

fn send(to: &mut Connection, mut bytes: &[u8], end: Instant) -> std::io::Result<()> {
    while !bytes.is_empty() {
        to.set_timeout(left(end)?)?;
        match to.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

fn left(end: Instant) -> std::io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What comes back to somebody who sends this and then waits.
    fn answered(sent: &[u8]) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || {
            exchange(Connection::Unix(server), |path| {
                Response::text("200 OK", format!("asked for {path}"))
            });
        });
        client.write_all(sent).unwrap();
        let mut text = String::new();
        let _ = client.read_to_string(&mut text);
        serving.join().unwrap();
        text
    }

    #[test]
    fn a_get_is_answered_with_its_path_and_everything_else_with_why_not() {
        let ok = answered(b"GET /metrics?debug=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(ok.starts_with("HTTP/1.1 200 OK\r\n"), "{ok}");
        assert!(ok.contains("Content-Length: 19\r\n"), "{ok}");
        assert!(ok.ends_with("\r\n\r\nasked for /metrics\n"), "{ok}");
        let post = answered(b"POST / HTTP/1.1\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        let noise = answered(b"\x16\x03\x01\x02\x00\x01\r\n\r\n");
        assert!(noise.starts_with("HTTP/1.1 400 "), "{noise}");
    }

    #[test]
    fn a_request_without_end_is_not_read_to_the_end() {
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(2 * MAX_REQUEST));
        let (mut client, server) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || {
            exchange(Connection::Unix(server), |_| Response::text("200 OK", ""));
        });
        // The other side stops reading somewhere in between.
        let _ = client.write_all(long.as_bytes());
        let mut text = [0; 12];
        client.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"HTTP/1.1 431");
        serving.join().unwrap();
    }

    #[test]
    fn whoever_says_nothing_is_left_alone_after_the_deadline() {
        let (client, server) = UnixStream::pair().unwrap();
        // Returns, although nothing is ever sent.
        exchange(Connection::Unix(server), |_| unreachable!("nobody asked"));
        drop(client);
    }
}
