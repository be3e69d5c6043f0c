//! bf's own traces, printed for other simulators.

use super::{DinSize, Format, ReplayError};
use bf_profile::trace::{Access, Reader, Record};
use std::io::{BufRead, Write};

/// Ranges in din are cut at addresses that are multiples of this, so that no access spans pages.
const PAGE: u64 = 4096;

/// What was printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Accesses of the trace.
    pub accesses: u64,
    /// Those that the run made while counting was off; other simulators count them.
    pub uncounted: u64,
    /// One more than the greatest slot.
    pub threads: u32,
    /// The trace ends early.
    pub truncated: bool,
}

/// Prints the accesses of a binary trace in the order of the run. din and lackey know no threads: all appear as one.
///
/// # Errors
/// The trace is damaged, or `output` refuses it. A `format` of [`Format::Bf`] is refused: the trace already has it.
pub fn print(
    input: impl BufRead,
    format: Format,
    sizes: DinSize,
    mut output: impl Write,
) -> Result<Printed, ReplayError> {
    let mut printed = Printed::default();
    if format == Format::Json {
        output.write_all(b"{\"trace\":[")?;
    }
    for record in Reader::new(input)? {
        let (slot, bucket, accesses) = match record {
            Ok(Record::Chunk { slot, bucket, accesses }) => (slot, bucket, accesses),
            Ok(_) => continue,
            Err(error) if error.is_truncation() => {
                printed.truncated = true;
                break;
            }
            Err(error) => return Err(error.into()),
        };
        for access in accesses.iter().filter(|access| access.size > 0) {
            match format {
                Format::Din => din(access, sizes, &mut output)?,
                Format::Lackey => {
                    writeln!(
                        output,
                        " {} {:08x},{}",
                        if access.store { 'S' } else { 'L' },
                        access.address,
                        access.size
                    )?;
                }
                Format::Json => json(slot, access, printed.accesses == 0, &mut output)?,
                Format::Bf => return Err(ReplayError::Limit("a bf trace is in this format already")),
            }
            printed.accesses += 1;
            printed.uncounted += u64::from(bucket == 0);
        }
        printed.threads = printed.threads.max(slot.saturating_add(1));
    }
    if format == Format::Json {
        writeln!(output, "\n],\"threads\":{}}}", printed.threads)?;
    }
    output.flush()?;
    Ok(printed)
}

fn din(access: &Access, sizes: DinSize, output: &mut impl Write) -> std::io::Result<()> {
    let (mut address, mut rest) = (access.address, access.size);
    while rest > 0 {
        let piece = rest.min(PAGE - address % PAGE);
        let kind = if access.store { 'w' } else { 'r' };
        match sizes {
            DinSize::Decimal => writeln!(output, "{kind} {address:x} {piece}")?,
            DinSize::Hexadecimal => writeln!(output, "{kind} {address:x} {piece:x}")?,
        }
        rest -= piece;
        // The last piece may end at the end of the address space.
        address = address.wrapping_add(piece);
    }
    Ok(())
}

fn json(slot: u32, access: &Access, first: bool, output: &mut impl Write) -> std::io::Result<()> {
    let comma = if first { "" } else { "," };
    let kind = if access.store { 'w' } else { 'r' };
    write!(output, "{comma}\n[{slot},{},{},\"{kind}\"]", access.address, access.size)
}
