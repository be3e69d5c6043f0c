//! A real browser without a window, driven by its own protocol over two pipes.
//!
//! Chromium's pipe transport: messages of the DevTools protocol, each a JSON text that ends in a zero byte, come in at file
//! descriptor 3 of the browser and go out at 4. Nothing listens at a port.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write as _, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use command_fds::{CommandFdExt as _, FdMapping};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser with one open page. It ends when dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: PipeWriter,
    from: BufReader<PipeReader>,
    calls: u64,
    session: Option<String>,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty page.
    ///
    /// # Panics
    /// There is no Chromium, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let (reads, to) = pipe().expect("a pipe");
        let (from, writes) = pipe().expect("a pipe");
        let mut command = Command::new("chromium");
        // Tests may run as root, for whom Chromium's sandbox does not start.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]);
        command.args(["--force-color-profile=srgb", "--lang=en", "--remote-debugging-pipe", "about:blank"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mappings =
            [(reads.into(), 3), (writes.into(), 4)].map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        command.fd_mappings(mappings.into()).expect("two different descriptors");
        let child = command.spawn().expect("failed to start chromium; cargo xtask test installs it");
        // The command holds the browser's ends of the pipes: without them a browser that ends is seen to.
        drop(command);
        let from = BufReader::new(from);
        let mut browser = Self { child, to, from, calls: 0, session: None, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.window(1200, 900);
        browser
    }

    /// Calls a method of the protocol.
    ///
    /// # Panics
    /// The browser refuses, or is gone.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let message = self.receive();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("the browser answers");
        assert_eq!(bytes.pop(), Some(0), "the browser is gone");
        serde_json::from_slice(&bytes).expect("a message of the protocol")
    }

    /// Waits for an event that `wanted` knows; those that came before count too.
    ///
    /// # Panics
    /// The browser is gone.
    pub fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.events.iter().position(&wanted) {
                return self.events.remove(at);
            }
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// The size of the window, in CSS pixels.
    pub fn window(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// The theme that the reader prefers.
    pub fn prefer(&mut self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a report and waits until it is shown.
    ///
    /// # Panics
    /// It cannot be shown.
    pub fn open(&mut self, address: &str) {
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        let gone = self.call("Page.navigate", json!({ "url": address }));
        assert!(gone["errorText"].is_null(), "{address}: {gone}");
        self.wait(|event| event["method"] == "Page.loadEventFired");
        let ready = "new Promise((done) => {
            const look = () => document.documentElement.dataset.ready && done(document.documentElement.dataset.ready);
            new MutationObserver(look).observe(document.documentElement, { attributes: true });
            look();
        })";
        let state = self.evaluate(ready);
        assert_eq!(state, "true", "{}", self.evaluate("document.body.innerText"));
    }

    /// Opens the report in a file.
    ///
    /// # Panics
    /// As [`Browser::open`].
    pub fn open_file(&mut self, path: &Path) {
        self.open(&format!("file://{}", path.display()));
    }

    /// The value of a JavaScript expression; promises are waited for.
    ///
    /// # Panics
    /// It throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true; it is looked at whenever the page has drawn itself.
    ///
    /// # Panics
    /// The expression throws.
    pub fn until(&mut self, expression: &str) {
        let parameters = format!(
            "new Promise((done) => {{ const look = () => ({expression}) ? done(true) : setTimeout(look, 20); look(); }})"
        );
        self.evaluate(&parameters);
    }

    /// Presses a key, such as `Tab` or `ArrowRight`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// What the page complained about so far, each as one text.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
            _ => false,
        };
        self.events.iter().filter(complaint).map(Value::to_string).collect()
    }

    /// Addresses that were asked for so far, but for those that lie in the page itself.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let addresses = sent.filter_map(|event| event["params"]["request"]["url"].as_str());
        addresses
            .filter(|address| !address.starts_with("data:") && !address.starts_with("blob:"))
            .map(str::to_owned)
            .collect()
    }

    /// A picture of the page, from its top to its end, as PNG.
    ///
    /// # Panics
    /// The browser sends none.
    pub fn picture(&mut self) -> Vec<u8> {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true, "clip": clip }));
        STANDARD.decode(shot["data"].as_str().unwrap_or_default()).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may be gone already. One that is killed leaves files behind, here and there.
        let closing = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if closing.is_err() || !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
