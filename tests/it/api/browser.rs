//! A headless Chromium, driven over its own pipe: the DevTools protocol, without a port.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser with one tab. Dropping it ends the process.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: Option<String>,
    /// Complaints of the page: errors, and everything that its policy refused.
    pub complaints: Vec<String>,
}

/// Chromium, where the machine has one; where it has none, the test run reports that at its end.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join("chromium")).find(|file| file.is_file());
    if found.is_none() {
        let mut all = fs::OpenOptions::new();
        let file =
            all.append(true).create(true).open(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/not-run"));
        let _ =
            file.and_then(|mut file| file.write_all(b"the page in a browser: there is no chromium here\n"));
    }
    found
}

impl Browser {
    /// Starts the browser, with its files below this directory.
    pub fn start(program: &Path, directory: &Path) -> Browser {
        let (to, from) = (directory.join("to"), directory.join("from"));
        for path in [&to, &from] {
            let made = Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success(), "mkfifo {}", path.display());
        }
        // The server's certificate is the node's own. Chromium as root must be started without its
        // sandbox.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<to 4>from"])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--ignore-certificate-errors",
                "--remote-debugging-pipe",
                "--disable-background-networking",
            ])
            .arg(format!("--user-data-dir={}", directory.join("browser").display()))
            .arg("about:blank")
            .current_dir(directory)
            .env("HOME", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The two ends wait for each other: open them in this order.
        let to = File::options().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let mut browser = Browser { child, to, from, number: 0, session: None, complaints: Vec::new() };
        let targets = browser.call("Target.getTargets", json!({}));
        let mut targets = targets["targetInfos"].as_array().unwrap().iter();
        let page = targets.find(|target| target["type"] == "page").unwrap()["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": page, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "{method}: the browser has ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            if ["Runtime.exceptionThrown", "Log.entryAdded"]
                .contains(&answer["method"].as_str().unwrap_or_default())
            {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }

    /// Value of an expression in the page.
    pub fn tells(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub fn sees(&mut self, what: &str, expression: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.tells(expression) != json!(true) {
            if Instant::now() > until {
                let text = self.tells("document.body.innerText");
                panic!(
                    "the page does not show that {what}: {expression}\n{}",
                    text.as_str().unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let message = json!({"id": self.number + 1, "method": "Browser.close"});
        let _ = self.to.write_all(format!("{message}\0").as_bytes());
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
