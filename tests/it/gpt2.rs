//! Checkpoints in Hugging Face's layout: the example has the tokens and outputs of Hugging Face's
//! own libraries (`tests/fixtures/make_gpt2.py`).

#![expect(unreachable_pub, reason = "the example's modules are included as they are")]
#![expect(dead_code, reason = "not all of the example is used here")]

#[path = "../../examples/gpt2/checkpoint.rs"]
mod checkpoint;
#[path = "../../examples/gpt2/folder.rs"]
pub(crate) mod folder;
#[path = "../../examples/gpt2/model.rs"]
mod model;
#[path = "../../examples/gpt2/tokens.rs"]
mod tokens;

use crate::process::{Folder, Process, root};
use serde_json::Value;

const GPT2: &str = "examples/gpt2";

fn fixture() -> String {
    root().join("tests/fixtures/gpt2").to_str().unwrap().to_owned()
}

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/gpt2/expected.json")).unwrap()
}

fn integers(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

#[test]
fn texts_become_the_tokens_of_the_original_and_back() {
    let tokens = tokens::Tokens::load(fixture().as_ref()).unwrap();
    let cases = expected();
    for case in cases["texts"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let found = tokens.encode(text).unwrap();
        assert_eq!(found, integers(&case["tokens"]), "{text}");
        let bytes: Vec<u8> = found.iter().flat_map(|&token| tokens.decode(token)).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
}

#[test]
fn scores_are_those_of_the_original() {
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    let folder = fixture();
    let checkpoint = checkpoint::Checkpoint::load(folder.as_ref()).unwrap();
    let model = model::Gpt2::load(&checkpoint).unwrap();
    let expected = expected();
    let prompt = integers(&expected["texts"][0]["tokens"]);
    let mut cache = model.cache();
    let (first, rest) = prompt.split_at(5);
    model.scores(first, Some(&mut cache)).unwrap();
    let in_two = model.scores(rest, Some(&mut cache)).unwrap().to_vec::<f32>().unwrap();
    let at_once = model.scores(&prompt, None).unwrap().to_vec::<f32>().unwrap();
    let wanted = expected["scores"].as_array().unwrap();
    assert_eq!(wanted.len(), at_once.len());
    for ((a, b), wanted) in in_two.iter().zip(&at_once).zip(wanted) {
        let wanted = wanted.as_f64().unwrap() as f32;
        assert!((a - wanted).abs() < 2e-5 && (b - wanted).abs() < 2e-5, "{a} {b} {wanted}");
    }
    let too_many = model.scores(&[1; 250], Some(&mut cache)).err().unwrap().to_string();
    assert_eq!(too_many, "the model takes at most 256 tokens");
}

#[test]
fn the_likeliest_tokens_are_those_of_the_original() {
    let expected = expected();
    let prompt = expected["texts"][0]["text"].as_str().unwrap();
    let folder = fixture();
    let words = ["--model", &folder, "--prompt", prompt, "--temperature", "0", "--tokens", "20"];
    let numbers = [&words[..], &["--numbers"]].concat();
    let stdout = Process::start(GPT2, &numbers).finish().good();
    let (said, result) = stdout.trim_end().split_once('\n').unwrap();
    let said: Vec<i64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(said, integers(&expected["said"]));
    assert!(result.starts_with("20 tokens, ") && result.ends_with(" ms each"), "{result}");
    // The text begins with the prompt.
    assert!(Process::start(GPT2, &words).finish().good().starts_with(prompt));
}

#[test]
fn a_token_is_one_plan_wherever_it_stands() {
    let folder = fixture();
    let words = ["--model", &folder, "--prompt", "A", "--tokens", "250", "--numbers"];
    // The sample may end before the compiling thread has finished.
    for _ in 0..20 {
        let run = Process::start_with(GPT2, &words, &[("GT_VERBOSE", "1")]).finish();
        let plans = run.stderr.lines().filter(|line| line.contains(" -> plan ")).count();
        let misses = run.stderr.lines().filter(|line| line.contains("a segment is new")).count();
        assert!(plans <= 1 && misses == 0, "{run:#?}");
        if plans == 1 {
            return;
        }
    }
    panic!("no plan was ready in twenty runs");
}

#[test]
fn the_cache_changes_nothing_and_dice_fall_by_the_seed() {
    let stdout = Process::start(GPT2, &[]).finish().good();
    assert!(stdout.starts_with("40 tokens are equal with and without the cache; "), "{stdout}");
    let folder = fixture();
    let said = |seed| {
        let words = ["--model", &folder, "--prompt", "A", "--numbers", "--seed", seed];
        let stdout = Process::start(GPT2, &words).finish().good();
        stdout.lines().next().unwrap().to_owned()
    };
    assert_eq!(said("1"), said("1"));
    assert_ne!(said("1"), said("2"));
}

#[test]
fn a_checkpoint_that_does_not_fit_is_told() {
    let (_, missing) = Process::start(GPT2, &["--model", "no/such"]).finish().bad();
    assert!(missing.contains("error: cannot read no/such/config.json"), "{missing}");
    let folder = Folder::new("gpt2");
    let config = include_str!("../fixtures/gpt2/config.json");
    let weights = std::fs::read(root().join("tests/fixtures/gpt2/model.safetensors")).unwrap();
    folder.write("model.safetensors", weights);
    let told = |from, to| {
        let file = folder.write("config.json", config.replace(from, to));
        let folder = file.strip_suffix("config.json").unwrap();
        Process::start(GPT2, &["--model", folder]).finish().bad().1
    };
    let wide = told("\"n_embd\": 32", "\"n_embd\": 64");
    assert!(wide.contains("of sizes [384, 32], where config.json asks for [384, 64]"), "{wide}");
    let deep = told("\"n_layer\": 2", "\"n_layer\": 3");
    assert!(deep.contains("the checkpoint has no tensor `h.2.ln_1.weight`"), "{deep}");
    let other = told("gelu_new", "relu");
    assert!(other.contains("the activation is `relu`, not `gelu_new`"), "{other}");
}
