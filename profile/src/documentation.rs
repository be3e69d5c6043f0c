//! Keeps the examples of `docs/profile-format.md` true.

use std::fmt::Write;
use std::fs;

use crate::container::tests::bytes;
use crate::samples::{tiny, tiny_trace};
use crate::section::{Format, SectionReader};
use crate::{read, trace};

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profile-format.md")).unwrap()
}

/// The bytes of the page's block ```` ```hex name ````: groups of hex digits, up to a bar.
fn block(name: &str) -> Vec<u8> {
    let page = page();
    let (_, rest) = page.split_once(&format!("```hex {name}\n")).expect(name);
    let (block, _) = rest.split_once("```").expect(name);
    let digits = block.lines().flat_map(|line| line.split('|').next()).flat_map(str::split_whitespace);
    digits.map(|byte| u8::from_str_radix(byte, 16).expect(byte)).collect()
}

/// How a block shows these bytes.
fn hex(bytes: &[u8]) -> String {
    let line = |chunk: &[u8]| {
        let digits = chunk.iter().fold(String::new(), |mut line, byte| {
            write!(line, "{byte:02x} ").unwrap();
            line
        });
        let text: String = chunk.iter().map(|&b| if b.is_ascii_graphic() { b.into() } else { '.' }).collect();
        format!("{digits:48}| {text}\n")
    };
    bytes.chunks(16).map(line).collect()
}

/// Contents of the second section of a file.
fn second(bytes: &[u8], format: &Format) -> Vec<u8> {
    let mut sections = SectionReader::new(bytes, format).unwrap();
    sections.next().unwrap();
    let section = sections.next().unwrap();
    sections.unpack(&section).unwrap()
}

/// The message shows what the page should have. Compressed bytes may differ between versions of zstd, so the files are
/// compared by what they say and only the contents by their bytes.
#[test]
fn examples_are_true() {
    let (profile, trace) = (bytes(&tiny()), tiny_trace());
    let records = |bytes: &[u8]| trace::Reader::new(bytes).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let lines = second(&profile, &Format::PROFILE);
    let frame = second(&trace, &Format::TRACE);
    assert_eq!(hex(&block("lines")), hex(&lines), "line data:\n{}", hex(&lines));
    assert_eq!(hex(&block("records")), hex(&frame), "records:\n{}", hex(&frame));
    assert_eq!(read(&*block("profile")).ok(), Some(tiny()), "profile:\n{}", hex(&profile));
    assert_eq!(records(&block("trace")), records(&trace), "trace:\n{}", hex(&trace));
    assert_eq!(second(&block("profile"), &Format::PROFILE), lines);
}
