//! Sizes as people write them: `32K`, `1.5M`, `32 MiB`. K, M, G and T are powers of 1024, as cache sizes are.

/// The greatest size that is taken, 1024T: sums of sizes stay far from overflow.
pub const MOST: u64 = 1 << 50;

/// Bytes of a size such as `4096`, `32K`, `32KiB` or `1M`; `None` for anything else, zero and more than [`MOST`] included.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        "t" | "tb" | "ti" | "tib" => 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut bytes = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    if !fraction.is_empty() {
        let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = fraction.parse::<u64>().ok()?.checked_mul(1 << shift)?;
        // 1.5M is a size, 1.0001K is not a number of bytes.
        if !part.is_multiple_of(scale) {
            return None;
        }
        bytes = bytes.checked_add(part / scale)?;
    }
    (1..=MOST).contains(&bytes).then_some(bytes)
}

/// The shortest exact way to write a size that [`parse`] reads back: `32K`, `1.5M`, `100`.
#[must_use]
pub fn format(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        // Halves and quarters stay readable (1.25M); anything finer is clearer in the smaller unit.
        let quarter = 1u64 << (shift - 2);
        if bytes >= 1 << shift && bytes.is_multiple_of(quarter) {
            let (whole, rest) = (bytes >> shift, (bytes & ((1 << shift) - 1)) / quarter);
            return format!("{whole}{}{unit}", ["", ".25", ".5", ".75"][usize::try_from(rest).unwrap_or(0)]);
        }
    }
    bytes.to_string()
}

/// A size for a reader who wants three digits, not every byte: `1.9 GiB`.
#[must_use]
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} PiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in
            [("100", 100), ("32K", 32 << 10), ("32Ki", 32 << 10), ("8m", 8 << 20), ("1.5M", 3 << 19), ("2GiB", 2 << 30)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "K", "0", "12Q", "-4K", "1.0001K", "99999999999T", "1024.25T", "1.2.3M"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn formatted_sizes_read_back() {
        for bytes in [1, 100, 1024, 1280, 48 << 10, 1_310_720, 3 << 19, 36_608 << 10, 1 << 40, (1 << 20) + 64] {
            assert_eq!(parse(&format(bytes)), Some(bytes));
        }
        assert_eq!(parse("1024T"), Some(MOST));
        assert_eq!(format(1_310_720), "1.25M");
        assert_eq!(human(1_310_720), "1.2 MiB");
    }
}
