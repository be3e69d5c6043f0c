//! What a run executed, in words.

use crate::output::{number, percent};
use bf_postproc::counters;
use bf_profile::Profile;
use std::{collections::BTreeMap, fmt::Write};

/// Sums of the counters that stand by themselves, by name.
pub fn totals(profile: &Profile) -> BTreeMap<String, u64> {
    let alone = counters::totals(profile).into_iter().filter(|(name, _)| counters::family(name).is_none());
    alone.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Sums by family and member.
pub type Families = BTreeMap<String, BTreeMap<String, u64>>;

/// Members of a family that the text names; the JSON names them all.
const MOST_MEMBERS: usize = 10;

/// Sums of the counters that are members of a family.
pub fn families(profile: &Profile) -> Families {
    let mut families = Families::new();
    for (name, value) in counters::totals(profile) {
        if let Some((family, member)) = counters::family(name) {
            families.entry(family.to_owned()).or_default().insert(member.to_owned(), value);
        }
    }
    families
}

/// The section of a report; nothing if nothing was counted.
pub fn text(totals: &BTreeMap<String, u64>, families: &Families) -> String {
    if totals.is_empty() {
        return String::new();
    }
    let get = |name: &str| totals.get(name).copied().unwrap_or_default();
    let share = |part: u64, whole: u64| percent((whole > 0).then(|| part as f64 / whole as f64));
    let mut text = "\nExecuted (docs/counters.md defines each; --format json has them all)\n".to_owned();
    let mut line = |name: &str, count: u64, more: String| {
        let _ = writeln!(text, "  {name:<14}{:>19}  {more}", number(count));
    };
    line("instructions", get("instructions"), format!("in {} basic blocks", number(get("blocks"))));
    line("loads", get("loads"), format!("{} bytes", number(get("bytes_loaded"))));
    line("stores", get("stores"), format!("{} bytes", number(get("bytes_stored"))));
    line("flops", get("flops"), format!("{} bits in and out", number(get("flop_bits"))));
    line("integer ops", get("int_ops"), format!("{} bits in and out, flops included", number(get("op_bits"))));
    let indirect = get("calls_indirect");
    line(
        "calls",
        get("calls"),
        format!("{} indirect, {} that may catch exceptions", number(indirect), number(get("invokes"))),
    );
    let (taken, not) = (get("branches_taken"), get("branches_not_taken"));
    let ways = format!(
        "{} conditional ({} taken), {} returns",
        number(taken + not),
        share(taken, taken + not),
        number(get("returns"))
    );
    line("branches", get("branches"), ways);
    let vectors = get("vector_ops");
    if vectors > 0 {
        line(
            "vector ops",
            vectors,
            format!("{} elements, {} bits", number(get("vector_elements")), number(get("vector_bits"))),
        );
    }
    // Calls are named at the top of the report.
    for (family, members) in families.iter().filter(|(family, _)| *family != "calls_to") {
        text += &format!("\nExecuted, {family}\n");
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        for (member, count) in members.iter().take(MOST_MEMBERS) {
            let _ = writeln!(text, "  {:>19}  {member}", number(**count));
        }
        if members.len() > MOST_MEMBERS {
            let _ = writeln!(text, "  and {} more", members.len() - MOST_MEMBERS);
        }
    }
    text
}
