//! What `valgrind --tool=lackey --trace-mem=yes` prints: ` L address,size`, ` S address,size`, ` M address,size` (a load
//! and a store of the same place) and `I  address,size` (an instruction, left out), with addresses in hexadecimal.

use super::{Feeder, MAX_SIZE, ReplayError, hexadecimal, lines};
use std::io::BufRead;

/// Whether valgrind says something here: `==pid== text`, `--pid-- text`, `**pid** text`.
pub(super) fn is_remark(line: &str) -> bool {
    ["==", "--", "**"].iter().any(|mark| {
        let pid = line.strip_prefix(mark).and_then(|rest| rest.split_once(mark));
        pid.is_some_and(|(pid, _)| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Feeds every data access of the trace.
pub(super) fn read(input: impl BufRead, feeder: &mut Feeder) -> Result<(), ReplayError> {
    lines(input, |line| {
        if line.trim().is_empty() || is_remark(line) {
            return Ok(Ok(()));
        }
        let unknown = || format!("`{}` is no line of lackey's", line.trim());
        let (kind, place) = line.trim_start().split_once(' ').ok_or_else(unknown)?;
        let (address, size) = place.trim_start().split_once(',').ok_or_else(unknown)?;
        let address = hexadecimal(address)?;
        let parsed = size.parse().ok().filter(|&size| size <= MAX_SIZE);
        let size = parsed.ok_or_else(|| format!("`{size}` is no size in bytes"))?;
        let kinds: &[bool] = match kind {
            "I" => &[],
            "L" => &[false],
            "S" => &[true],
            "M" => &[false, true],
            _ => return Err(unknown()),
        };
        Ok(kinds.iter().try_for_each(|&store| feeder.access(0, address, size, store)))
    })
}
