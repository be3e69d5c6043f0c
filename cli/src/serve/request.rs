//! What a request asks for, and what it gets.

use super::http::Request;
use std::net::IpAddr;

/// Bytes of an address beyond which nobody asks for anything that there is.
const LONGEST: usize = 2048;

/// What is asked for, of a request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of which profiles.
    pub wanted: Wanted,
    /// Only whether they have changed.
    pub stamp: bool,
}

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The first: a list, or the only profile there is.
    Start,
    /// Profiles by number, side by side; each is there.
    Profiles(Vec<usize>),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status.
    pub code: u16,
    kind: &'static str,
    body: String,
    /// A header of its own.
    more: Option<(&'static str, String)>,
}

impl Reply {
    /// A page.
    pub const fn html(body: String) -> Self {
        Self { code: 200, kind: "text/html; charset=utf-8", body, more: None }
    }

    /// A sentence, or data.
    pub fn text(code: u16, body: &str) -> Self {
        Self { code, kind: "text/plain; charset=utf-8", body: body.to_owned(), more: None }
    }

    /// Another place.
    pub fn redirect(to: &str) -> Self {
        Self { more: Some(("Location", to.to_owned())), ..Self::text(302, "") }
    }

    /// As it is sent, perhaps without what is asked for. No other site may show, read or remember it.
    pub fn bytes(self, head_only: bool) -> Vec<u8> {
        let phrase = match self.code {
            200 => "OK",
            302 => "Found",
            _ => "Refused",
        };
        let mut head = format!(
            "HTTP/1.1 {} {phrase}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: frame-ancestors 'none'\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n",
            self.code,
            self.kind,
            self.body.len()
        );
        if let Some((name, value)) = self.more {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        if !head_only {
            head += &self.body;
        }
        head.into_bytes()
    }
}

/// Judges a request to a server of `profiles` profiles.
///
/// # Errors
/// The refusal.
pub fn target(request: &Request, token: &str, profiles: usize) -> Result<Target, Reply> {
    if !request.host.as_deref().is_some_and(is_address) {
        return Err(Reply::text(
            403,
            "The Host of the request is neither an IP address nor localhost: a page of another site may have made it.\n",
        ));
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let more = Some(("Allow", "GET, HEAD".to_owned()));
        return Err(Reply { more, ..Reply::text(405, "Profiles can only be read here: use GET.\n") });
    }
    let url = request.target.as_str();
    if url.len() > LONGEST {
        return Err(Reply::text(414, "The address is longer than any that leads somewhere.\n"));
    }
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let Some(rest) = path.strip_prefix('/').and_then(|path| path.strip_prefix(token)) else {
        return Err(Reply::text(403, "The address lacks the token; use the one that bf serve printed.\n"));
    };
    let nothing =
        || Reply::text(404, "There is nothing at this address; the list of profiles is at the printed one.\n");
    let wanted = match rest {
        "" | "/" => Wanted::Start,
        "/compare" | "/stamp" => Wanted::Profiles(numbers(query, profiles)?),
        _ => {
            let number = rest.strip_prefix('/').and_then(|number| number.parse().ok());
            Wanted::Profiles(vec![number.filter(|&number: &usize| number < profiles).ok_or_else(nothing)?])
        }
    };
    Ok(Target { wanted, stamp: rest == "/stamp" })
}

/// The profiles of `with=0&with=2`.
fn numbers(query: &str, profiles: usize) -> Result<Vec<usize>, Reply> {
    let number = |part: &str| part.strip_prefix("with=")?.parse().ok().filter(|&number: &usize| number < profiles);
    let numbers: Option<Vec<usize>> = query.split('&').map(number).collect();
    let refusal = || {
        Reply::text(400, "Profiles are chosen by number, as in ?with=0&with=1, and only those on the list are there.\n")
    };
    numbers.filter(|numbers| numbers.len() <= profiles).ok_or_else(refusal)
}

/// The part of an address that [`numbers`] reads.
pub fn query(numbers: &[usize]) -> String {
    numbers.iter().map(|number| format!("with={number}")).collect::<Vec<_>>().join("&")
}

/// Whether a Host header names an address: one that a name server made up leads a browser here under the name of
/// another site, whose scripts could then read the answers.
fn is_address(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    without_port.eq_ignore_ascii_case("localhost") || without_port.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, host: Option<&str>, url: &str) -> Result<Target, u16> {
        let request = Request { method: method.to_owned(), target: url.to_owned(), host: host.map(str::to_owned) };
        target(&request, "t0ken", 3).map_err(|reply| {
            assert!(reply.body.ends_with(".\n"), "{reply:?}");
            reply.code
        })
    }

    fn get(url: &str) -> Result<Target, u16> {
        ask("GET", Some("127.0.0.1:8000"), url)
    }

    fn profiles(numbers: &[usize], stamp: bool) -> Result<Target, u16> {
        Ok(Target { wanted: Wanted::Profiles(numbers.to_vec()), stamp })
    }

    #[test]
    fn addresses_that_lead_somewhere() {
        let start = Ok(Target { wanted: Wanted::Start, stamp: false });
        assert_eq!((get("/t0ken"), get("/t0ken/?x=1")), (start.clone(), start));
        assert_eq!(get("/t0ken/2"), profiles(&[2], false));
        assert_eq!(get("/t0ken/compare?with=0&with=2"), profiles(&[0, 2], false));
        assert_eq!(get(&format!("/t0ken/stamp?{}", query(&[1, 0]))), profiles(&[1, 0], true));
    }

    #[test]
    fn the_rest_is_refused_with_a_sentence() {
        for url in ["/", "/t0kem/0", "//t0ken/0", "t0ken/0", "/%74%30ken/0", ""] {
            assert_eq!(get(url), Err(403), "{url}");
        }
        for url in
            ["/t0ken/3", "/t0ken/-1", "/t0ken/0/", "/t0ken/../../etc/passwd", "/t0ken/..%2f", "/t0kenx", "/t0ken//0"]
        {
            assert_eq!(get(url), Err(404), "{url}");
        }
        for query in ["", "?", "?with=3", "?with=0&", "?with=0&with=0&with=0&with=0", "?with=0x1", "?other=0"] {
            assert_eq!(get(&format!("/t0ken/compare{query}")), Err(400), "{query}");
        }
        assert_eq!(get(&format!("/t0ken/{}", "0".repeat(3000))), Err(414));
        assert_eq!(ask("POST", Some("localhost"), "/t0ken/0"), Err(405));
    }

    #[test]
    fn only_addresses_are_hosts() {
        for host in ["127.0.0.1", "127.0.0.1:80", "localhost:1", "LOCALHOST", "[::1]:80", "192.168.0.7:8000"] {
            assert!(ask("GET", Some(host), "/t0ken/0").is_ok(), "{host}");
        }
        for host in [None, Some(""), Some("evil.example"), Some("127.0.0.1.evil.example:80"), Some("[evil.example]:80")]
        {
            assert_eq!(ask("GET", host, "/t0ken/0"), Err(403), "{host:?}");
        }
    }
}
