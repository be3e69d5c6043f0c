//! Figures in the sentences of a comparison.

use crate::size;

/// A part of something with three digits: `1.25 %`.
pub(super) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        p if p >= 99.95 => format!("{p:.0} %"),
        p if p >= 10.0 => format!("{p:.1} %"),
        p if p >= 1.0 => format!("{p:.2} %"),
        p if p >= 0.001 => format!("{p:.3} %"),
        p if p >= 0.000_005 => format!("{p:.5} %"),
        _ => "0 %".to_owned(),
    }
}

/// A size as people write it: `1.5M`, `256 bytes`.
pub(super) fn bytes(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { size::format(bytes) }
}

/// Such as `7 of 10`, for a figure that A has and B has.
pub(super) fn both(figure: impl Fn(usize) -> String) -> String {
    format!("{} in A, {} in B", figure(0), figure(1))
}

/// A ratio with three digits or so.
pub(super) fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.01 => format!("{v:.2}"),
        v if v >= 0.000_05 => format!("{v:.4}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let shown = [1.0, 0.123_45, 0.012_345, 0.000_123, 1e-6, 0.0].map(percent);
        assert_eq!(shown, ["100 %", "12.3 %", "1.23 %", "0.012 %", "0.00010 %", "0 %"]);
        assert_eq!([0.0, 0.5, 12.34, 123.4, 0.001_23].map(number), ["0", "0.50", "12.3", "123", "0.0012"]);
        assert_eq!(both(|side| ["x", "y"][side].to_owned()), "x in A, y in B");
    }
}
