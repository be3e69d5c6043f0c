//! The engine of the report page: as WebAssembly, in the browser that it is for, it gives the answers that the same code gives
//! here.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bf_page::Page;
use bf_postproc::{Cache, Query, query};
use bf_profile::Profile;
use bf_tests::browser::Browser;
use bf_tests::sandbox::{Sandbox, succeed};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// The installed engine. Nothing is imported: a module that asks for anything does not start.
struct Wasm(Browser);

const START: &str = "(async () => {
    const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const { instance: { exports } } = await WebAssembly.instantiate(decode('MODULE'), {});
    window.call = (entry, text) => {
        const input = decode(text);
        const at = exports.bf_input(input.length);
        new Uint8Array(exports.memory.buffer, at, input.length).set(input);
        exports[entry]();
        return new TextDecoder().decode(new Uint8Array(exports.memory.buffer, exports.bf_output(), exports.bf_output_length()));
    };
})()";

impl Wasm {
    fn new() -> Self {
        let module =
            std::fs::read(bf_tests::prefix().join("share/bf/page/engine.wasm")).expect("the engine is installed");
        let mut browser = Browser::start();
        browser.evaluate(&START.replace("MODULE", &STANDARD.encode(module)));
        Self(browser)
    }

    fn call(&mut self, entry: &str, input: &[u8]) -> Value {
        let answer = self.0.evaluate(&format!("call('{entry}', '{}')", STANDARD.encode(input)));
        serde_json::from_str(answer.as_str().unwrap()).unwrap()
    }

    fn ask(&mut self, question: &Value) -> Value {
        self.call("bf_ask", question.to_string().as_bytes())
    }
}

fn case(name: &str, options: &[&str]) -> Vec<u8> {
    let sandbox = Sandbox::new();
    let trace = format!("{}/cases/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut command = sandbox.command(bf_tests::program("bf"));
    let _ = succeed(command.args(["replay", &trace, "-o", "a.bfp"]).args(options));
    std::fs::read(sandbox.file("a.bfp")).unwrap()
}

/// One cache: a shape that a profile of 32- and 64-byte lines can be asked about.
fn cache(level: usize) -> impl Strategy<Value = String> {
    let ways = prop_oneof![
        (0..5_u32).prop_map(|bits| (1_u64 << bits).to_string()),
        Just("12".to_owned()),
        Just("full".to_owned())
    ];
    let options = (prop::sample::select(vec![":32", ":64"]), any::<bool>());
    (ways, 0..400_u64, options).prop_map(move |(ways, sets, (line, hashed))| {
        let set = 64 * ways.parse::<u64>().unwrap_or(1);
        // A power of two half of the time.
        let sets = if sets < 200 { 1 << (sets % 9) } else { sets };
        let hashed = if hashed && ways != "full" { ":hashed" } else { "" };
        format!("L{level}={}:{ways}{line}{}{hashed}", set * sets, if level == 2 { ":shared" } else { "" })
    })
}

#[test]
fn any_hierarchy_has_the_answer_of_the_library() {
    let files = [case("mixed-3t", &["--line-size", "32,64"]), case("stencil-1t", &["--line-size", "32,64"])];
    let profiles: Vec<Profile> = files.iter().map(|file| bf_profile::read(&file[..]).unwrap()).collect();
    let mut wasm = Wasm::new();
    for (number, file) in files.iter().enumerate() {
        let loaded = wasm.call("bf_load", file);
        assert_eq!((&loaded["profile"], &loaded["line_sizes"]), (&json!(number), &json!([32, 64])));
    }
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() });
    let answered = std::cell::Cell::new(0);
    let wasm = std::cell::RefCell::new(wasm);
    let asked = (0..2_usize, cache(1), cache(2), 1..=2_usize);
    let outcome = runner.run(&asked, |(number, first, second, levels)| {
        let caches = [first, second][..levels].to_vec();
        let parsed = caches.iter().map(|cache| cache.parse::<Cache>()).collect::<Result<Vec<_>, _>>();
        let here = match parsed {
            Ok(levels) => {
                query(&profiles[number], &Query { levels, ..Query::default() }).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let here = match here {
            Ok(answer) => {
                answered.set(answered.get() + 1);
                // Through text, as there: what is read back of a ratio may differ from it in the last bit.
                serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap()
            }
            Err(error) => json!({ "error": error }),
        };
        let there = wasm.borrow_mut().ask(&json!({ "ask": "query", "profile": number, "caches": caches }));
        prop_assert_eq!(there, here);
        Ok(())
    });
    outcome.unwrap();
    assert!(answered.get() > 60, "only {} of 96 hierarchies can be asked about", answered.get());
}

#[test]
fn every_other_question_has_the_same_answer_too() {
    let sampled = case("mixed-1t", &["--sample", "1/2"]);
    let whole = case("stencil-1t", &[]);
    let (mut wasm, mut page) = (Wasm::new(), Page::new());
    for file in [&sampled, &whole] {
        let here: Value = serde_json::from_str(&page.load(file)).unwrap();
        assert_eq!(wasm.call("bf_load", file), here);
        assert!(here["error"].is_null(), "{here}");
    }
    let caches = json!(["L1=4K:4", "L2=64K:8:shared:hashed"]);
    let mut answers = Vec::new();
    for number in 0..2 {
        let sweep = json!({ "ask": "sweep", "profile": number, "sizes": [4096, 16384, 98304], "ways": ["1", "4", "full"],
            "line": null, "scope": "private", "hashed": false });
        let by =
            json!({ "ask": "by", "profile": number, "caches": caches, "by": "line", "sort": "L1.misses", "top": 3 });
        for question in [sweep, by, json!({ "ask": "curve", "profile": number, "tags": [] })] {
            let here: Value = serde_json::from_str(&page.ask(question.to_string().as_bytes())).unwrap();
            assert_eq!(wasm.ask(&question), here, "{question}");
            answers.push(here);
        }
    }
    assert!(answers[3]["points"].as_array().unwrap().len() == 9 && answers[5]["curve"].as_array().unwrap().len() > 5);
    assert!(answers[4]["error"].as_str().unwrap().contains("by place"), "{}", answers[4]);
}

#[test]
fn what_is_wrong_is_a_sentence_and_the_engine_goes_on() {
    let whole = case("stencil-1t", &[]);
    let mut wasm = Wasm::new();
    let cut = wasm.call("bf_load", &whole[..whole.len() / 2]);
    assert!(cut["error"].as_str().unwrap().contains("section"), "{cut}");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    assert!(wasm.call("bf_load", &damaged)["error"].is_string());
    assert!(wasm.call("bf_load", b"")["error"].is_string());
    assert_eq!(wasm.call("bf_load", &whole)["profile"], 0);
    for (question, word) in [
        (json!({ "ask": "query", "profile": 7, "caches": ["L1=4K:4"] }), "no profile 7"),
        (json!({ "ask": "query", "profile": 0, "caches": [] }), "no cache"),
        (json!({ "ask": "query", "profile": 0, "caches": ["L1=30000:8"] }), "29K or 29.5K"),
        (json!({ "ask": "tea" }), "tea"),
        (json!(["L1"]), "not a question"),
    ] {
        let answer = wasm.ask(&question);
        assert!(answer["error"].as_str().unwrap().contains(word), "{question}: {answer}");
    }
    assert_eq!(wasm.ask(&json!({ "ask": "query", "profile": 0, "caches": ["L1=4K:4"] }))["levels"][0]["name"], "L1");
}
