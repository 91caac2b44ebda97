//! A headless Chromium, controlled over a pair of pipes (the DevTools protocol), so that no port is opened and no timed
//! waits are needed.

#![allow(dead_code, reason = "each user of this module takes a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Its names; the first is what `cargo xtask test` installs.
const PROGRAMS: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Events that it sent, in order.
    pub events: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let program = PROGRAMS.into_iter().find(|program| is_there(program)).unwrap_or_else(|| {
            panic!("none of {PROGRAMS:?} is there; `cargo xtask test` installs it (Debian: apt-get install chromium-headless-shell)")
        });
        let folder = tempfile::tempdir().unwrap();
        // It expects its pipes at 3 and 4; as root it has no sandbox.
        let command = format!(
            "exec {program} --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --user-data-dir={} \
             --remote-debugging-pipe about:blank 3<&0 4>&1 1>/dev/null 2>&1",
            folder.path().display()
        );
        let mut child =
            Command::new("sh").args(["-c", &command]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, to, from, session: None, last_id: 0, events: Vec::new(), _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and returns its result.
    #[expect(clippy::needless_pass_by_value, reason = "made for the call")]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert!(message.pop() == Some(0), "the browser has ended");
        serde_json::from_slice(&message).unwrap()
    }

    /// The value of an expression, awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Opens a file in a window of this size and waits until all its charts are drawn.
    pub fn open(&mut self, file: &Path, width_px: u32, height_px: u32) {
        self.navigate(&format!("file://{}", file.display()), width_px, height_px);
        self.evaluate(
            "new Promise((done) => {
                const root = document.documentElement;
                const look = () => { if (root.dataset.drawn) done(true); };
                new MutationObserver(look).observe(root, { attributes: true });
                look();
            })",
        );
    }

    /// Opens a file in a window as high as the page, since charts are only drawn when visible.
    pub fn open_whole(&mut self, file: &Path, width_px: u32) {
        self.open(file, width_px, 900);
        let height = self.evaluate("document.documentElement.scrollHeight").as_u64().unwrap();
        self.open(file, width_px, u32::try_from(height).unwrap());
    }

    /// Saves a screenshot to the folder in `BREME_SCREENSHOTS`, if set.
    pub fn keep_picture(&mut self, name: &str) {
        let Ok(folder) = std::env::var("BREME_SCREENSHOTS") else { return };
        let options = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", options);
        let picture = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(Path::new(&folder).join(name), picture).unwrap();
    }

    /// Opens an address in a window of this size and waits until it is loaded.
    pub fn navigate(&mut self, url: &str, width_px: u32, height_px: u32) {
        let size = json!({ "width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": width_px < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_until_loaded();
    }

    /// Clicks a link to another page and waits until it is loaded.
    pub fn click_and_load(&mut self, selector: &str) {
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        self.evaluate(&format!("document.querySelector('{selector}').click()"));
        self.wait_until_loaded();
    }

    fn wait_until_loaded(&mut self) {
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            if kind == "char" && key.chars().count() > 1 {
                continue;
            }
            let text = if kind == "char" { key } else { "" };
            let event = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Errors reported by the page.
    pub fn complaints(&self) -> Vec<&Value> {
        let complains = |event: &&Value| {
            ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed"]
                .iter()
                .any(|method| event["method"] == *method)
        };
        self.events.iter().filter(complains).collect()
    }

    /// Requested addresses.
    pub fn requests(&self) -> Vec<&str> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()))
}
