//! Traces of real programs: what Valgrind's `lackey` sees of a native build, as references to 64-byte lines.

use crate::programs;
use anyhow::{Context as _, Result, ensure};
use bf_stack::Reference;
use bf_tests::sandbox::{self, Build};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::Stdio;

/// Names of all recorded traces.
pub const NAMES: [&str; 4] = ["sqlite", "lua", "zlib", "clipper"];

/// The start of a program, loading and reading its input, is left out: so many references.
const SKIP: usize = 4_000_000;

/// Whether programs can be recorded here.
#[must_use]
pub fn possible() -> bool {
    let mut valgrind = sandbox::command("valgrind");
    valgrind.args(["--tool=lackey", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    valgrind.status().is_ok_and(|status| status.success())
}

/// The trace of that name, `limit` references long unless the program ends before. Recording takes a minute, so the
/// references are kept in the target directory, where later runs find them.
///
/// # Errors
/// The program does not build, or it cannot be recorded.
pub fn make(name: &str, limit: usize) -> Result<Vec<Reference>> {
    let recipe = format!("{name} {limit} {SKIP}");
    let folder = bf_tests::cached::built(&format!("lackey-{name}"), Build::Native, &recipe, |folder| {
        record(name, limit, folder)
    })?;
    let bytes = fs::read(folder.join("references"))?;
    let words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
    Ok(words.map(|word| Reference::new(word >> 1, word & 1 != 0)).collect())
}

/// Writes the references to a file in `folder`: line << 1 | store.
fn record(name: &str, limit: usize, folder: &Path) -> Result<()> {
    let run = programs::program(name, Build::Native)?;
    // Without its debug information, which this valgrind may be too old to read.
    let stripped = folder.join("stripped");
    let _ = sandbox::succeed(sandbox::command("strip").arg("-o").arg(&stripped).arg(&run.program));
    let mut valgrind = sandbox::command("valgrind");
    valgrind.args(["-q", "--tool=lackey", "--trace-mem=yes"]).arg(stripped).args(&run.args);
    let input = run.input.as_ref().map_or_else(|| Ok(Stdio::null()), |input| File::open(input).map(Stdio::from))?;
    valgrind.current_dir(folder).stdin(input).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = valgrind.spawn().context("failed to run valgrind")?;
    let mut log = BufReader::with_capacity(1 << 20, child.stderr.take().context("valgrind has no log")?);
    let mut file = BufWriter::new(File::create(folder.join("references"))?);
    let (mut seen, mut line) = (0, Vec::new());
    while seen < SKIP + limit && log.read_until(b'\n', &mut line)? > 0 {
        for (line, store) in references(&line) {
            if (SKIP..SKIP + limit).contains(&seen) {
                file.write_all(&(line << 1 | u64::from(store)).to_le_bytes())?;
            }
            seen += 1;
        }
        line.clear();
    }
    // It is of no use any more, and may have ended by itself.
    let _ = child.kill();
    child.wait()?;
    ensure!(seen > SKIP, "{name} made {seen} references under valgrind, too few");
    file.flush()?;
    Ok(())
}

/// The references of one line of the log: ` L`, ` S` or ` M` for a load, a store or both, then address and size. None for
/// instructions (`I`) and whatever else stands there.
fn references(text: &[u8]) -> impl Iterator<Item = (u64, bool)> + use<> {
    let parse = || {
        let text = std::str::from_utf8(text).ok()?;
        let kinds: &[bool] = match text.get(..3)? {
            " L " => &[false],
            " S " => &[true],
            " M " => &[false, true],
            _ => return None,
        };
        let (address, size) = text[3..].trim().split_once(',')?;
        let (address, size) = (u64::from_str_radix(address, 16).ok()?, size.parse::<u64>().ok()?);
        Some((kinds, address >> 6..=(address + size.max(1) - 1) >> 6))
    };
    parse()
        .into_iter()
        .flat_map(|(kinds, lines)| kinds.iter().flat_map(move |&store| lines.clone().map(move |line| (line, store))))
}

#[cfg(test)]
mod tests {
    use super::references;

    #[test]
    fn lines_of_the_log() {
        let all = |text: &str| references(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(all(" L 1fff000fc0,8\n"), [(0x7ffc_003f, false)]);
        assert_eq!(all(" S 7f,2\n"), [(1, true), (2, true)]);
        assert_eq!(all(" M 80,4\n"), [(2, false), (2, true)]);
        assert_eq!(all("I  04001000,3\n"), []);
        assert_eq!(all("==12== lackey, an example\n"), []);
    }
}
