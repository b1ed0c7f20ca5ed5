//! Tokenizers of Hugging Face: tokens exactly, padding on both sides, and files that are damaged.

use gt::data::text::{PaddingSide, SpecialTokens, Tokenizer};
use gt_ir::testing::Source;

use crate::files::damaged;

/// Words, as BERT has them, with marks of the beginning and the end.
const WORDS: &str = r#"{
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 2, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true}
  ],
  "normalizer": {"type": "Lowercase"},
  "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {
      "[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
      "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}
    }
  },
  "decoder": null,
  "model": {
    "type": "WordLevel", "unk_token": "[UNK]",
    "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "a": 4, "program": 5, "that": 6,
              "runs": 7, ".": 8}
  }
}"#;

/// Pairs of bytes, as GPT-2 has them, with its pattern of words, which looks ahead.
const BYTES: &str = r#"{
  "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "'s| ?\\p{L}+|\\s+(?!\\S)|\\s+|."},
     "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
  ]},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
              "use_regex": true},
  "model": {
    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
    "vocab": {"l": 0, "o": 1, "w": 2, "Ġ": 3, "Ã": 4, "¶": 5, "lo": 6, "low": 7, "Ġlow": 8,
              "Ã¶": 9},
    "merges": ["l o", "lo w", "Ġ low", "Ã ¶"]
  }
}"#;

fn tokenizer(text: &str) -> Tokenizer {
    Tokenizer::from_bytes(text.as_bytes(), "x").expect("the file is right")
}

#[test]
fn texts_become_tokens_and_texts_again() {
    let words = tokenizer(WORDS);
    let ids = words.encode("A program that RUNS fast.", SpecialTokens::With).unwrap();
    assert_eq!(ids, [1, 4, 5, 6, 7, 3, 8, 2]);
    let without = words.encode("a program", SpecialTokens::Without).unwrap();
    assert_eq!(without, [4, 5]);
    assert_eq!(words.decode(&ids, SpecialTokens::Without).unwrap(), "a program that runs [UNK] .");
    assert_eq!(words.decode(&[1, 4, 2], SpecialTokens::With).unwrap(), "[CLS] a [SEP]");
    assert_eq!((words.vocab_size(), words.token_to_id("runs")), (9, Some(7)));
    assert_eq!((words.id_to_token(5).as_deref(), words.id_to_token(-1)), (Some("program"), None));
    let error = words.decode(&[4, -100], SpecialTokens::With).unwrap_err();
    assert_eq!(error.message(), "x: -100 is no token");
    assert!(error.loc().file().ends_with("it/tokens.rs"), "{error}");

    let bytes = tokenizer(BYTES);
    let ids = bytes.encode("low low öl", SpecialTokens::With).unwrap();
    assert_eq!(ids, [7, 8, 3, 9, 0]);
    assert_eq!(bytes.decode(&ids, SpecialTokens::Without).unwrap(), "low low öl");
}

#[test]
fn batches_are_padded_on_either_side() {
    let texts = ["a", "a program that runs"];
    let error = tokenizer(WORDS).encode_batch(&texts, SpecialTokens::With).unwrap_err();
    assert_eq!(error.message(), "x: the texts differ in length, and are not padded");
    assert_eq!(error.cure(), Some("name a token for it by `enable_padding`"));
    let even = tokenizer(WORDS).encode_batch(&["a", "that"], SpecialTokens::Without).unwrap();
    assert_eq!(even.input_ids.to_vec::<i64>().unwrap(), [4, 6]);

    let right = tokenizer(WORDS).enable_padding("[PAD]", PaddingSide::Right).unwrap();
    let batch = right.encode_batch(&texts, SpecialTokens::With).unwrap();
    assert_eq!(batch.input_ids.ty().to_string(), "i64[2,6]");
    assert_eq!(batch.input_ids.to_vec::<i64>().unwrap(), [1, 4, 2, 0, 0, 0, 1, 4, 5, 6, 7, 2]);
    let mask = [true, true, true, false, false, false, true, true, true, true, true, true];
    assert_eq!(batch.attention_mask.to_vec::<bool>().unwrap(), mask);

    let left = tokenizer(WORDS).enable_padding("[PAD]", PaddingSide::Left).unwrap();
    let batch = left.pad_to_multiple_of(4).encode_batch(&texts, SpecialTokens::Without).unwrap();
    assert_eq!(batch.input_ids.to_vec::<i64>().unwrap(), [0, 0, 0, 4, 4, 5, 6, 7]);
    assert_eq!(
        batch.attention_mask.to_vec::<bool>().unwrap()[..5],
        [false, false, false, true, true]
    );

    let endless = right.clone().pad_to_multiple_of(usize::MAX);
    let error = endless.encode_batch(&texts, SpecialTokens::With).unwrap_err();
    assert!(error.message().starts_with("x: there is no room for"), "{error}");
    let none = right.encode_batch::<&str>(&[], SpecialTokens::With).unwrap();
    assert_eq!(none.input_ids.ty().to_string(), "i64[0,0]");
    let error = tokenizer(WORDS).enable_padding("<pad>", PaddingSide::Right).unwrap_err();
    assert_eq!(error.message(), "x: there is no token `<pad>`");
}

#[test]
fn what_the_file_says_of_padding_and_truncation_applies() {
    let padding = r#""padding": {"strategy": {"Fixed": 5}, "direction": "Left",
        "pad_to_multiple_of": null, "pad_id": 2, "pad_type_id": 0, "pad_token": "[SEP]"}"#;
    let file = WORDS.replacen("\"padding\": null", padding, 1);
    let batch = tokenizer(&file).encode_batch(&["a"], SpecialTokens::Without).unwrap();
    assert_eq!(batch.input_ids.to_vec::<i64>().unwrap(), [2, 2, 2, 2, 4]);
    let huge = file.replacen("\"Fixed\": 5", "\"Fixed\": 50000000000", 1);
    let error = Tokenizer::from_bytes(huge.as_bytes(), "x").unwrap_err();
    assert_eq!(error.message(), "x: it pads to 50000000000 tokens, but may to 1048576");

    let truncation = r#""truncation": {"direction": "Right", "max_length": 4,
        "strategy": "LongestFirst", "stride": 0}"#;
    let file = WORDS.replacen("\"truncation\": null", truncation, 1);
    let ids = tokenizer(&file).encode("a program that runs", SpecialTokens::With).unwrap();
    assert_eq!(ids, [1, 4, 5, 2]);
    for (from, to) in
        [("\"max_length\": 4", "\"max_length\": 1"), ("\"stride\": 0", "\"stride\": 9")]
    {
        let error = Tokenizer::from_bytes(file.replacen(from, to, 1).as_bytes(), "x").unwrap_err();
        assert!(error.message().starts_with("x: "), "{error}");
    }
}

#[test]
fn damaged_tokenizers_are_errors_or_give_some_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, WORDS).unwrap();
    assert_eq!(Tokenizer::from_file(&path).unwrap().vocab_size(), 9);
    let error = Tokenizer::from_file(folder.path()).unwrap_err();
    assert!(error.message().starts_with(folder.path().to_str().unwrap()), "{error}");

    for (i, whole) in [WORDS, BYTES].iter().enumerate() {
        for n in (0..whole.len()).step_by(7) {
            let error = Tokenizer::from_bytes(&whole.as_bytes()[..n], "x").unwrap_err();
            assert!(error.message().starts_with("x: "), "{error}");
            assert!(error.cure().is_some() && error.loc().file().ends_with("it/tokens.rs"));
        }
        let mut source = Source::from_seed(i as u64);
        let mut refused = 0;
        for _ in 0..1500 {
            let read = Tokenizer::from_bytes(&damaged(whole.as_bytes(), &mut source), "x");
            let used = read.and_then(|tokenizer| {
                let ids = tokenizer.encode("low ö program [SEP] runs", SpecialTokens::With)?;
                tokenizer.decode(&ids, SpecialTokens::With)
            });
            if let Err(error) = used {
                assert!(error.message().starts_with("x: "), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 700, "file {i}: {refused} of 1500 refused");
    }
}
