//! The example of a web service, asked by several clients at once.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::Process;

/// The status and the body of the answer to a request.
fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
}

/// Images of the data of the examples, with their digits.
fn images() -> Vec<(u64, String)> {
    let lines = include_str!("../../examples/data/digits.txt").lines().take(48);
    let image = |line: &str| {
        let mut values = line.chars().filter_map(|c| c.to_digit(17));
        let digit = values.next().unwrap();
        let pixels: Vec<f32> = values.map(|darkness| darkness as f32 / 16.0).collect();
        (digit.into(), json!({ "pixels": pixels }).to_string())
    };
    lines.map(image).collect()
}

#[test]
fn a_service_answers_requests_in_batches() {
    // Waits longer than a busy machine needs to bring the requests together.
    let words = ["--listen", "localhost:0", "--batch", "16", "--wait", "2000"];
    let mut service = Process::start("examples/service", &words);
    let line = service.until("listening at ");
    let address = line.strip_prefix("listening at ").unwrap();

    let images = images();
    let answers: Vec<(u64, (u16, Value))> = std::thread::scope(|scope| {
        let ask =
            |(digit, body)| scope.spawn(move || (digit, ask(address, "POST", "/classify", body)));
        let threads: Vec<_> = images.iter().map(|(digit, body)| ask((*digit, &**body))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|(_, (code, _))| *code == 200), "{answers:?}");
    let right = answers.iter().filter(|(digit, (_, is))| is["digit"] == *digit).count();
    assert!(right > 43, "{right} of 48: {answers:?}");
    let batches = answers.iter().map(|(_, (_, is))| is["batch"].as_u64().unwrap());
    assert_eq!(batches.max(), Some(16), "{answers:?}");

    let says = |method, path, body| {
        let (code, answer) = ask(address, method, path, body);
        (code, answer["error"].as_str().unwrap().to_owned())
    };
    let wrong = says("POST", "/classify", r#"{"pixels": [1, 2]}"#);
    assert_eq!(wrong, (400, "`pixels` must be 64 numbers".into()));
    let wrong = says("POST", "/classify", "pixels");
    assert!(wrong.0 == 400 && wrong.1.starts_with("the body is not JSON: "), "{wrong:?}");
    let large = "[".repeat(20 << 10);
    assert_eq!(says("POST", "/classify", &large).0, 400);
    assert_eq!(says("GET", "/classify", ""), (405, "ask with POST".into()));
    assert_eq!(says("GET", "/", "").0, 404);
    // It goes on after all that.
    assert_eq!(ask(address, "POST", "/classify", &images[0].1).0, 200);
    assert!(service.is_running());
}
