//! DineroIV's text formats. Extended din: label, address in hexadecimal, size; the rest of a line is a comment.
//! Traditional din: 0, 1 or 2 for a read, a write or an instruction fetch, and the address; every access is one word.

use super::{DinSize, Feeder, MAX_SIZE, ReplayError, hexadecimal, lines};
use std::io::BufRead;

/// Bytes of an access in traditional din, which has no sizes: a word of the machines it was made for.
const WORD: u64 = 4;

/// What a label stands for.
enum Label {
    Read,
    Write,
    /// Instruction fetches, and the cache's own doings, which are no accesses of the program's.
    Other,
}

fn label(text: &str) -> Option<Label> {
    Some(match text {
        // DineroIV counts `m` (miscellaneous) as a read.
        "r" | "R" | "m" | "M" | "0" => Label::Read,
        "w" | "W" | "1" => Label::Write,
        "i" | "I" | "c" | "C" | "v" | "V" | "2" | "3" | "4" => Label::Other,
        _ => return None,
    })
}

/// Whether a line can begin with this word.
pub(super) fn is_label(text: &str) -> bool {
    label(text).is_some()
}

/// Feeds every data access of the trace.
pub(super) fn read(input: impl BufRead, sizes: DinSize, feeder: &mut Feeder) -> Result<(), ReplayError> {
    lines(input, |line| {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { return Ok(Ok(())) };
        let kind = label(first).ok_or_else(|| format!("`{first}` is none of r, w, i, m, c, v, 0, 1, 2"))?;
        let address = hexadecimal(words.next().ok_or("an address is missing")?)?;
        let store = match kind {
            Label::Read => false,
            Label::Write => true,
            Label::Other => return Ok(Ok(())),
        };
        let size = if first.starts_with(|c: char| c.is_ascii_digit()) {
            WORD
        } else {
            size(words.next().ok_or("a size is missing")?, sizes)?
        };
        Ok(feeder.access(0, address, size, store))
    })
}

fn size(text: &str, sizes: DinSize) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size in bytes");
    let size = if sizes == DinSize::Hexadecimal || text.starts_with("0x") || text.starts_with("0X") {
        hexadecimal(text).map_err(|_| wrong())?
    } else {
        text.parse().map_err(|_| match hexadecimal(text) {
            Ok(_) => format!("{}; if sizes are hexadecimal say --din-size hex", wrong()),
            Err(_) => wrong(),
        })?
    };
    if size <= MAX_SIZE { Ok(size) } else { Err(wrong()) }
}
