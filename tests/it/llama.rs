//! A LLaMA in Hugging Face's layout: the example has the tokens and outputs of Hugging Face's own
//! libraries (`tests/fixtures/make_llama.py`).

#![expect(unreachable_pub, reason = "the example's modules are included as they are")]

#[path = "../../examples/llama/checkpoint.rs"]
mod checkpoint;
#[path = "../../examples/llama/model.rs"]
mod model;

use crate::gpt2::folder;
use crate::process::{Folder, Process, root};
use serde_json::Value;

const LLAMA: &str = "examples/llama";

fn fixture() -> String {
    root().join("tests/fixtures/llama").to_str().unwrap().to_owned()
}

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/llama/expected.json")).unwrap()
}

fn integers(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

#[test]
fn scores_are_those_of_the_original_and_near_them_with_integers() {
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    let folder = fixture();
    let checkpoint = checkpoint::Checkpoint::load(folder.as_ref()).unwrap();
    let expected = expected();
    let prompt = integers(&expected["tokens"]);
    let wanted = expected["scores"].as_array().unwrap();
    for (bits, near) in [(None, 2e-5), (Some(8), 0.3), (Some(4), 5.0)] {
        let model = model::Llama::load(&checkpoint, bits).unwrap();
        let mut cache = model.cache(40).unwrap();
        let at_once = model.scores(&prompt, &mut cache).unwrap().to_vec::<f32>().unwrap();
        // Many tokens, then few: both kinds of products with integers.
        let mut cache = model.cache(40).unwrap();
        let (first, rest) = prompt.split_at(prompt.len() - 3);
        model.scores(first, &mut cache).unwrap();
        let in_two = model.scores(rest, &mut cache).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(wanted.len(), at_once.len());
        for ((a, b), wanted) in in_two.iter().zip(&at_once).zip(wanted) {
            let wanted = wanted.as_f64().unwrap() as f32;
            assert!((a - wanted).abs() < near, "{bits:?}: {a} {wanted}");
            assert!((a - b).abs() < 1e-3, "{bits:?}: {a} {b}");
        }
    }
    let model = model::Llama::load(&checkpoint, None).unwrap();
    let error = model.cache(129).err().unwrap().to_string();
    assert_eq!(error, "the model takes at most 128 tokens, not 129");
    let error = model.scores(&[1; 9], &mut model.cache(8).unwrap()).err().unwrap().to_string();
    assert_eq!(error, "the cache takes at most 8 tokens");
}

#[test]
fn the_likeliest_tokens_are_those_of_the_original() {
    let expected = expected();
    let has_texts = cfg!(feature = "tokenizers");
    let prompt = match has_texts {
        true => expected["text"].as_str().unwrap().to_owned(),
        false => integers(&expected["tokens"]).iter().map(|id| format!("{id} ")).collect(),
    };
    let folder = fixture();
    let words = ["--model", &folder, "--prompt", &prompt, "--temperature", "0", "--tokens", "20"];
    let numbers = [&words[..], &["--numbers"]].concat();
    let stdout = Process::start(LLAMA, &numbers).finish().good();
    let (said, result) = stdout.trim_end().split_once('\n').unwrap();
    let said: Vec<i64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(said, integers(&expected["said"]));
    assert!(result.starts_with("20 tokens, ") && result.ends_with(" after the first"), "{result}");
    if has_texts {
        // The text begins with the prompt. (What random weights say is no text.)
        assert!(Process::start(LLAMA, &words).finish().good().starts_with(&prompt));
    }
    let small = [&numbers[..], &["--bits", "8"]].concat();
    assert!(Process::start(LLAMA, &small).finish().good().contains("20 tokens, "));
}

#[test]
fn a_checkpoint_that_does_not_fit_is_told() {
    let told = |words: &[&str]| Process::start(LLAMA, words).finish().bad().1;
    let missing = told(&["--model", "no/such", "--prompt", "1"]);
    assert!(missing.contains("error: cannot read no/such/config.json"), "{missing}");
    let folder = fixture();
    let bits = told(&["--model", &folder, "--prompt", "1", "--bits", "5"]);
    assert!(bits.contains("numbers have 8 or 4 bits"), "{bits}");
    let long = told(&["--model", &folder, "--prompt", "1", "--tokens", "200"]);
    assert!(long.contains("the model takes at most 128 tokens"), "{long}");

    let place = Folder::new("llama");
    let config = include_str!("../fixtures/llama/config.json");
    for file in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        place.write(file.file_name().to_str().unwrap(), std::fs::read(file.path()).unwrap());
    }
    let changed = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        let file = place.write("config.json", config.replace(from, to));
        told(&["--model", file.strip_suffix("config.json").unwrap(), "--prompt", "1"])
    };
    let other = changed("\"silu\"", "\"gelu\"");
    assert!(other.contains("the activation is `gelu`, not `silu`"), "{other}");
    let scaled = changed("\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"yarn\"}");
    assert!(scaled.contains("not by type `llama3`"), "{scaled}");
    let biased = changed("\"attention_bias\": false", "\"attention_bias\": true");
    assert!(biased.contains("`attention_bias` is true"), "{biased}");
    let wide = changed("\"hidden_size\": 64", "\"hidden_size\": 32");
    assert!(wide.contains("of sizes [288, 64], where config.json asks for [288, 32]"), "{wide}");
    let deep = changed("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    let name = "the checkpoint has no tensor `model.layers.2.input_layernorm.weight`";
    assert!(deep.contains(name), "{deep}");
}
