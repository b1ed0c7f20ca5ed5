//! The page in a real browser, by the pipe of Chromium's DevTools protocol. Where no Chromium is
//! installed, the test says that it is skipped.
//!
//! What is drawn is found in the browser's own pictures of its window, by the colors of spans. So
//! the test knows neither the layout of the page nor its code.

use super::super::model::{Kind, Timeline};
use super::{HEAD, html, line, traced};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use resvg::tiny_skia::Pixmap;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The programs that are looked for.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// The deadline of an answer, longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The window.
const SIZE: (u32, u32) = (1200, 700);

/// A browser with one page.
struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// The session of the page, once there is one.
    page: Option<String>,
    n_calls: u64,
    /// Errors of the page's script.
    errors: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// A browser that shows a page, or None where there is no browser.
    fn started(address: &str) -> Option<Browser> {
        let is_there = |name: &&&str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
        };
        let Some(name) = NAMES.iter().find(is_there) else {
            println!("skipped: no program on the PATH is named {}", NAMES.join(", "));
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        // The protocol goes over files 3 and 4, which the shell opens. A user with all rights needs
        // --no-sandbox.
        let command = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", command, name, "--headless=new", "--remote-debugging-pipe"])
            .args(["--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--disable-dev-shm-usage", "--force-device-scale-factor=1"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(out).split(0).map_while(Result::ok);
            messages.filter_map(|m| serde_json::from_slice(&m).ok()).all(|m| sender.send(m).is_ok())
        });
        let (page, errors) = (None, Vec::new());
        let mut browser = Browser { process, to, from, page, n_calls: 0, errors, _folder: folder };
        browser.open(address);
        Some(browser)
    }

    fn open(&mut self, address: &str) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", attach);
        self.page = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}));
        }
        let window = json!({"width": SIZE.0, "height": SIZE.1, "deviceScaleFactor": 1,
                            "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", window);
        self.call("Page.navigate", json!({"url": address}));
        self.until("the page is loaded", |browser| {
            browser.eval("location.protocol + document.readyState") == "file:complete"
        });
    }

    /// Calls a method and returns its result. Events that come before are looked at for errors.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.n_calls += 1;
        let id = self.n_calls;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(page) = &self.page {
            message["sessionId"] = json!(page);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut said = self.from.recv_timeout(PATIENCE).unwrap_or_else(|why| {
                panic!("{method}: the browser does not answer: {why}");
            });
            let entry = &said["params"]["entry"];
            if said["method"] == "Runtime.exceptionThrown" || entry["level"] == "error" {
                self.errors.push(said["params"].take());
            } else if said["id"] == id {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].take();
            }
        }
    }

    /// The value of an expression in the page.
    fn eval(&mut self, expression: &str) -> Value {
        let wanted = json!({"expression": expression, "returnByValue": true});
        let mut said = self.call("Runtime.evaluate", wanted);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {}", said["exceptionDetails"]);
        said["result"]["value"].take()
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Browser) -> bool) {
        const PAUSE: Duration = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while !is_so(self) {
            assert!(waited < PATIENCE, "it is never so: {what}");
            std::thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    /// Moves, presses or turns the mouse at a place.
    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut event = json!({"type": kind, "x": x, "y": y});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("Input.dispatchMouseEvent", event);
    }

    fn click(&mut self, place: (f64, f64), n: u32) {
        for count in 1..=n {
            let left = json!({"button": "left", "buttons": 1, "clickCount": count});
            self.mouse("mousePressed", place, left.clone());
            self.mouse("mouseReleased", place, left);
        }
    }

    /// The middle of an element.
    fn place(&mut self, selector: &str) -> (f64, f64) {
        let code = format!(
            "(r => [r.x + r.width / 2, r.y + r.height / 2])\
             (document.querySelector({selector:?}).getBoundingClientRect())"
        );
        let place = self.eval(&code);
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    /// What the window shows now.
    fn picture(&mut self) -> Pixmap {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let png = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        Pixmap::decode_png(&png).unwrap()
    }

    /// The rectangle of a color among what the window shows.
    fn region(&mut self, kind: Kind) -> Option<Region> {
        region(&self.picture(), kind)
    }

    fn tip(&mut self) -> String {
        let shown = "(t => t.style.display === 'block' ? t.innerText : '')\
                     (document.getElementById('tip'))";
        self.eval(shown).as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The pixels of one color, from the first to behind the last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Region {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Region {
    fn middle(self) -> (f64, f64) {
        (f64::midpoint(self.left, self.right), f64::midpoint(self.top, self.bottom))
    }

    fn width(self) -> f64 {
        self.right - self.left
    }
}

/// Where the color of a kind is, below the legend.
fn region(picture: &Pixmap, kind: Kind) -> Option<Region> {
    const LEGEND: usize = 110;
    let color = u32::from_str_radix(&kind.color()[1..], 16).unwrap();
    let width = picture.width() as usize;
    let mut found: Option<Region> = None;
    for (n, pixel) in picture.pixels().iter().enumerate().skip(LEGEND * width) {
        let own = [pixel.red(), pixel.green(), pixel.blue()];
        if u32::from_be_bytes([0, own[0], own[1], own[2]]) == color {
            let (x, y) = ((n % width) as f64, (n / width) as f64);
            let whole = found.unwrap_or(Region { left: x, right: x, top: y, bottom: y });
            found = Some(Region {
                left: whole.left.min(x),
                right: whole.right.max(x + 1.0),
                top: whole.top.min(y),
                bottom: whole.bottom.max(y + 1.0),
            });
        }
    }
    found
}

/// The part of the pixels that differ.
fn difference(a: &Pixmap, b: &Pixmap) -> f64 {
    assert_eq!((a.width(), a.height()), (b.width(), b.height()));
    let differing = a.pixels().iter().zip(b.pixels()).filter(|(a, b)| a != b).count();
    differing as f64 / a.pixels().len() as f64
}

/// Nothing of a name is read as a part of the page.
const EVIL: &str = "<img src=x onerror=\\\"document.title='evil'\\\">";

/// A trace whose spans have a color each, and a page of it.
fn page() -> (tempfile::TempDir, String) {
    let worker = |at: f64, name: &str, command: &str, rest: &str| {
        line(at, "EXECUTE", "worker", name, command, rest)
    };
    let text = [
        HEAD.to_owned(),
        line(0.0, "RECV", "client", "s1", "Note", ",\"bytes\":4096"),
        worker(400.0, "w1", "matmul", ",\"took\":100,\"live\":4096,\"details\":\"model.rs:7\""),
        worker(600.0, "w1", "sum", ",\"took\":100,\"live\":8192"),
        worker(300.0, "w2", "exp", ",\"took\":50"),
        worker(800.0, "w2", EVIL, ",\"took\":100"),
        line(1000.0, "ERROR", "worker", "w2", "Failed", ",\"took\":0"),
    ];
    let timeline = Timeline::of(traced("page", text.concat()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, html::page(&timeline, "A <b>page</b>")).unwrap();
    let address = format!("file://{}", path.display());
    (folder, address)
}

#[test]
fn the_page_zooms_searches_and_explains_in_a_browser() {
    let (_folder, address) = page();
    let Some(mut browser) = Browser::started(&address) else { return };
    shows_the_trace_and_nothing_else(&mut browser);
    explains_what_is_under_the_mouse(&mut browser);
    zooms_at_the_mouse_and_back(&mut browser);
    moves_with_the_mouse_and_keys(&mut browser);
    finds_what_is_typed(&mut browser);
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

fn shows_the_trace_and_nothing_else(browser: &mut Browser) {
    assert_eq!(browser.eval("document.getElementById('title').textContent"), "A <b>page</b>");
    assert_eq!(browser.eval("document.querySelectorAll('img, b').length"), 0);
    assert_eq!(browser.eval("document.title"), "A <b>page</b>");
    let about = browser.eval("document.getElementById('about').textContent");
    assert!(about.as_str().unwrap().contains("6 events"), "{about}");
    let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert_eq!(wide, 0, "the page is wider than its window");
    let product = browser.region(Kind::Contract).unwrap();
    let sum = browser.region(Kind::Reduce).unwrap();
    let exp = browser.region(Kind::Pointwise).unwrap();
    assert!((product.width() - sum.width()).abs() <= 2.0, "{product:?} {sum:?}");
    assert!((product.width() - 2.0 * exp.width()).abs() <= 3.0, "{product:?} {exp:?}");
    assert!(product.right < sum.left && product.top == sum.top, "one lane: {product:?} {sum:?}");
    assert!(exp.top > product.bottom && exp.right < product.left, "{exp:?} {product:?}");
}

fn explains_what_is_under_the_mouse(browser: &mut Browser) {
    assert_eq!(browser.tip(), "");
    let product = browser.region(Kind::Contract).unwrap();
    browser.mouse("mouseMoved", product.middle(), json!({}));
    let tip = browser.tip();
    let parts = ["matmul", "100 us", "at 400 us", "model.rs:7"];
    assert!(parts.iter().all(|part| tip.contains(part)), "{tip}");
    let sum = browser.region(Kind::Reduce).unwrap();
    browser.mouse("mouseMoved", sum.middle(), json!({}));
    assert!(browser.tip().starts_with("sum"), "{}", browser.tip());
    // Below the lanes is the memory: nothing before the product, then what it left.
    let bottom = browser.eval("document.getElementById('c').getBoundingClientRect().bottom - 20");
    let memory = |x: f64| (x, bottom.as_f64().unwrap());
    browser.mouse("mouseMoved", memory(sum.left), json!({}));
    let tip = browser.tip();
    assert!(tip.starts_with("memory w1 4.1 kB at 6"), "{tip}");
    browser.mouse("mouseMoved", memory(product.left), json!({}));
    assert_eq!(browser.tip(), "");
    // Between the two is nothing, and outside of the lanes neither.
    let between = f64::midpoint(product.right, sum.left);
    for place in [(between, sum.top + 3.0), (20.0, 20.0)] {
        browser.mouse("mouseMoved", place, json!({}));
        assert_eq!(browser.tip(), "", "{place:?}");
    }
}

fn zooms_at_the_mouse_and_back(browser: &mut Browser) {
    let whole = browser.picture();
    let before = region(&whole, Kind::Contract).unwrap();
    for _ in 0..3 {
        browser.mouse("mouseWheel", before.middle(), json!({"deltaX": 0, "deltaY": -120}));
    }
    let after = browser.region(Kind::Contract).unwrap();
    let times = after.width() / before.width();
    assert!((times - 0.8_f64.powi(-3)).abs() < 0.1, "{times}: {before:?} {after:?}");
    assert!((after.middle().0 - before.middle().0).abs() <= 2.0, "{before:?} {after:?}");
    browser.mouse("mouseWheel", before.middle(), json!({"deltaX": 0, "deltaY": 120}));
    assert!(browser.region(Kind::Contract).unwrap().width() < after.width());
    let button = browser.place("#all");
    browser.click(button, 1);
    browser.mouse("mouseMoved", (20.0, 20.0), json!({}));
    browser.eval("document.activeElement.blur()");
    let again = browser.picture();
    assert!(difference(&whole, &again) < 0.002, "the whole time is another picture");
    // A double click shows a span with a margin.
    browser.click(before.middle(), 2);
    let close = browser.region(Kind::Contract).unwrap();
    assert!(close.width() > 5.0 * before.width(), "{close:?}");
    assert_eq!(browser.region(Kind::Reduce), None);
}

fn moves_with_the_mouse_and_keys(browser: &mut Browser) {
    let key = |browser: &mut Browser, key: &str| {
        let text = if key.len() == 1 { key } else { "" };
        browser
            .call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": text}));
    };
    key(browser, "0");
    let before = browser.region(Kind::Contract).unwrap();
    let (x, y) = before.middle();
    let left = json!({"button": "left", "buttons": 1, "clickCount": 1});
    browser.mouse("mousePressed", (x, y), left.clone());
    browser.mouse("mouseMoved", (x - 100.0, y), left.clone());
    browser.mouse("mouseReleased", (x - 100.0, y), left);
    let after = browser.region(Kind::Contract).unwrap();
    assert!((before.left - after.left - 100.0).abs() <= 2.0, "{before:?} {after:?}");
    key(browser, "ArrowLeft");
    assert!(browser.region(Kind::Contract).unwrap().left > after.left);
    key(browser, "+");
    assert!(browser.region(Kind::Contract).unwrap().width() > before.width());
    key(browser, "0");
    assert_eq!(browser.region(Kind::Contract), Some(before));
}

fn finds_what_is_typed(browser: &mut Browser) {
    let search = browser.place("#find");
    browser.click(search, 1);
    // A place in a file is found as well as an op.
    browser.call("Input.insertText", json!({"text": "MODEL.rs"}));
    let about = "document.getElementById('about').textContent";
    assert_eq!(browser.eval(about), "1 found in view");
    assert!(browser.region(Kind::Contract).is_some());
    assert_eq!(browser.region(Kind::Reduce), None, "what is not found is pale");
    browser.call("Input.insertText", json!({"text": "+"}));
    assert_eq!(browser.eval(about), "0 found in view");
    browser.eval(
        "(f => { f.value = ''; f.dispatchEvent(new Event('input')) })\
         (document.getElementById('find'))",
    );
    assert!(browser.region(Kind::Reduce).is_some());
}
