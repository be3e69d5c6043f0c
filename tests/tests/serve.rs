//! `bf serve`: pages for whoever has the token, sentences for everybody else, and an end when it is told to.

use bf_tests::browser::Browser;
use bf_tests::sandbox::{Sandbox, succeed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// A running server.
struct Server {
    child: Child,
    _out: BufReader<ChildStdout>,
    /// `127.0.0.1:PORT`.
    host: String,
    /// `/TOKEN`.
    token: String,
}

impl Server {
    fn start(sandbox: &Sandbox, profiles: &[&str]) -> Self {
        let mut command = sandbox.command(bf_tests::program("bf"));
        command.arg("serve").args(profiles).args(["--cache", "L1=4K:4"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let (host, token) = address.split_once('/').unwrap();
        let token = format!("/{}", token.trim_end_matches('/'));
        assert!(host.starts_with("127.0.0.1:") && token.len() == 33, "{line}");
        Self { child, _out: out, host: host.to_owned(), token }
    }

    /// The status and everything after it.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        // A server that keeps silent fails the test, however busy the machine.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{answer}")), answer)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.host))
    }

    /// Tells it to end; its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with `one.bfp`, `two.bfp` and `broken.bfp`.
fn profiles() -> Sandbox {
    let sandbox = Sandbox::new();
    for (case, name) in [("stencil-1t", "one.bfp"), ("mixed-1t", "two.bfp")] {
        let trace = format!("{}/cases/{case}.json", env!("CARGO_MANIFEST_DIR"));
        let _ = succeed(sandbox.command(bf_tests::program("bf")).args(["replay", &trace, "-o", name]));
    }
    let mut broken = std::fs::read(sandbox.file("one.bfp")).unwrap();
    let middle = broken.len() / 2;
    broken[middle] ^= 0x55;
    sandbox.write("broken.bfp", broken);
    sandbox
}

#[test]
fn profiles_are_listed_shown_and_compared_and_a_broken_one_is_named() {
    let sandbox = profiles();
    let server = Server::start(&sandbox, &["one.bfp", "broken.bfp", "two.bfp"]);
    let token = server.token.clone();
    let (status, list) = server.get(&format!("{token}/"));
    assert_eq!(status, 200);
    for text in ["<bdi>one.bfp</bdi>", "<bdi>two.bfp</bdi>", "broken.bfp", "checksum"] {
        assert!(list.contains(text), "{text}: {list}");
    }
    let (status, refused) = server.get(&format!("{token}/1"));
    assert!(status == 422 && refused.contains("checksum"), "{refused}");

    let mut browser = Browser::start();
    let address = |path: &str| format!("http://{}{token}/{path}", server.host);
    for (path, profiles) in [("0", 1), ("2", 1), ("compare?with=0&with=2", 2)] {
        browser.open(&address(path));
        let shown = browser.evaluate("new Set([...document.querySelectorAll('#answer [data-profile]')].map((cell) => cell.dataset.profile)).size");
        assert_eq!(shown, profiles, "{path}");
    }
    // An open page is told when its profile has changed.
    browser.open(&address("2"));
    browser.until("document.querySelector('.changed')?.hidden === true");
    std::fs::copy(sandbox.file("one.bfp"), sandbox.file("two.bfp")).unwrap();
    browser.until("document.querySelector('.changed').hidden === false");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let away = |request: &&String| !request.starts_with(&format!("http://{}{token}/", server.host));
    assert_eq!(browser.requests().iter().find(away), None);
    assert_eq!(server.end(Signal::SIGINT), Some(0));
}

#[test]
fn everybody_else_gets_a_sentence() {
    let sandbox = profiles();
    sandbox.write("secret.c", "secret");
    let server = Server::start(&sandbox, &["one.bfp"]);
    let token = server.token.clone();
    let (status, moved) = server.get(&format!("{token}/"));
    assert!(status == 302 && moved.contains(&format!("Location: {token}/0")), "{moved}");
    let (status, page) = server.get(&format!("{token}/0"));
    assert_eq!(status, 200);
    for header in [
        "Cache-Control: no-store",
        "frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
    ] {
        assert!(page.contains(header), "{header}");
    }
    assert!(!page.contains("Access-Control-Allow-Origin"));
    for (path, status) in [
        ("/".to_owned(), 403),
        ("/0".to_owned(), 403),
        (format!("/{}/0", "0".repeat(32)), 403),
        (format!("{token}/1"), 404),
        (format!("{token}/../secret.c"), 404),
        (format!("{token}/..%2fsecret.c"), 404),
        (format!("{token}/secret.c"), 404),
        (format!("{token}/compare?with=9"), 400),
        (format!("{token}/{}", "x".repeat(5000)), 414),
    ] {
        let (found, answer) = server.get(&path);
        assert_eq!(found, status, "{path}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(body.trim_end().ends_with('.') && !answer.contains("secret"), "{path}: {answer}");
    }
    let host = &server.host;
    for (request, status) in [
        (format!("POST {token}/0 HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), 405),
        (format!("DELETE {token}/0 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), 405),
        (format!("GET {token}/0 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403),
        (format!("GET {token}/0 HTTP/1.1\r\nConnection: close\r\n\r\n"), 403),
        ("nonsense\r\n\r\n".to_owned(), 400),
        (format!("GET {token}/0 HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", "y".repeat(1 << 16)), 431),
    ] {
        assert_eq!(server.ask(&request).0, status, "{request}");
    }
    // Somebody who connects and says nothing holds up nobody.
    let _silent: Vec<_> = (0..8).map(|_| TcpStream::connect(host).unwrap()).collect();
    assert_eq!(server.get(&format!("{token}/0")).0, 200);
    assert_eq!(server.end(Signal::SIGTERM), Some(0));
}
