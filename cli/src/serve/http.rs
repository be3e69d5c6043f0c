//! The little of HTTP/1.1 that reading takes: one request a connection, a head within bounds, nobody waited for without end.

use super::request::Reply;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

/// Bytes of a request up to the end of its headers.
const LONGEST_HEAD: usize = 16 << 10;
/// Headers of a request.
const MOST_HEADERS: usize = 64;
/// How long a client may pause.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read after an answer to whoever is still sending: a connection that is closed on unread bytes may lose it.
const MOST_REST: u64 = 1 << 20;

/// What a request says, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// What stands behind it: a path, perhaps with a query.
    pub target: String,
    /// The Host header; `None` if there is not exactly one.
    pub host: Option<String>,
}

/// Answers the request of a connection and closes it.
///
/// # Errors
/// The client went away, or takes too long.
pub fn serve(mut stream: TcpStream, answer: impl FnOnce(&Request) -> Reply) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (head_only, reply) = match read(&mut stream) {
        Ok(request) => (request.method == "HEAD", answer(&request)),
        Err(refusal) => (false, refusal),
    };
    stream.write_all(&reply.bytes(head_only))?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream.take(MOST_REST), &mut io::sink()).map(drop)
}

/// Reads the head of a request.
fn read(from: &mut impl Read) -> Result<Request, Reply> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        let late = || Reply::text(408, "The request did not come in time.\n");
        let length = from.read(&mut chunk).ok().filter(|&length| length > 0).ok_or_else(late)?;
        head.extend_from_slice(&chunk[..length]);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {
                let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
                let host = hosts.next().filter(|_| hosts.next().is_none());
                return Ok(Request {
                    method: request.method.unwrap_or_default().to_owned(),
                    target: request.path.unwrap_or_default().to_owned(),
                    host: host.map(|host| String::from_utf8_lossy(host.value).into_owned()),
                });
            }
            Ok(httparse::Status::Partial) if head.len() < LONGEST_HEAD => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Reply::text(431, "The request has longer headers than any that is answered here.\n"));
            }
            Err(error) => return Err(Reply::text(400, &format!("The request is no HTTP/1.1: {error}.\n"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that sends a few bytes at a time.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(7);
            self.0.read(&mut buffer[..length])
        }
    }

    fn heard(text: &str) -> Result<Request, u16> {
        read(&mut Slowly(text.as_bytes())).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_request_is_understood_however_it_comes() {
        let request = heard("GET /a?b HTTP/1.1\r\nAccept: */*\r\nhOST: localhost:1\r\n\r\nrest").unwrap();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/a?b"));
        assert_eq!(request.host.as_deref(), Some("localhost:1"));
        let twice = heard("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(twice.host, None);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(heard("nonsense\r\n\r\n").unwrap_err(), 400);
        assert_eq!(heard("\u{16}\u{3}\u{1}tls").unwrap_err(), 400);
        assert_eq!(heard("GET / HTTP/1.1\r\nHost: loc").unwrap_err(), 408);
        assert_eq!(heard("").unwrap_err(), 408);
        assert_eq!(heard(&format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(LONGEST_HEAD))).unwrap_err(), 431);
        assert_eq!(heard(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100))).unwrap_err(), 431);
    }
}
