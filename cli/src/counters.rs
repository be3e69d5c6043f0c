//! What a run executed, in words.

use crate::{
    names::{short, whole},
    output::{number, percent, shortened, table},
};
use bf_postproc::{Answer, Cache, counters};
use bf_profile::Profile;
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write};

/// Counters by name.
type Values = BTreeMap<String, u64>;

/// Members of a family that the text names; the JSON names them all.
const MOST_MEMBERS: usize = 10;
/// Functions, likewise.
const MOST_FUNCTIONS: usize = 10;

/// The counters of a run; nothing of it is printed if nothing was counted.
#[derive(Debug, Serialize)]
pub struct Executed {
    /// Those that stand by themselves.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    totals: Values,
    /// Those that the program makes the names of, by family and member.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    families: BTreeMap<String, Values>,
    /// Most instructions first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<Function>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratios: Option<Ratios>,
}

/// What a function of the compiled code executed, with what was inlined into it.
#[derive(Debug, Serialize)]
struct Function {
    /// Linkage name.
    name: String,
    file: Option<String>,
    line: Option<u32>,
    /// Every counter, members of families too.
    counters: Values,
}

/// Quotients of counters; null where the divisor is 0.
#[derive(Debug, Serialize)]
struct Ratios {
    /// Bytes loaded and stored for each floating-point operation.
    bytes_per_flop: Option<f64>,
    /// Floating-point and integer operations for each load.
    ops_per_load: Option<f64>,
    /// The same for each branch.
    ops_per_branch: Option<f64>,
    instructions_per_block: Option<f64>,
    /// Elements of vector operations for each floating-point and integer operation; null if vectors were not counted.
    vector_share: Option<f64>,
    /// Arithmetic intensity at each part of the memory, the nearest cache first.
    flops_per_byte: Vec<Intensity>,
}

/// Arithmetic intensity at one part of the memory.
#[derive(Debug, Serialize)]
struct Intensity {
    /// Name of the cache, or `memory`.
    level: String,
    /// Bytes that it serves: to the program, or to the cache above; null if unknown.
    bytes: Option<u64>,
    flops_per_byte: Option<f64>,
}

impl Executed {
    /// Of what has one of these tags in a profile, or of all if there are none, with the caches of an answer, which may lack some of
    /// those asked about.
    pub fn new(profile: &Profile, tags: &[String], asked: &[Cache], answer: Option<&Answer>) -> Self {
        let (mut totals, mut families) = (Values::new(), BTreeMap::<_, Values>::new());
        for (name, value) in counters::totals(profile, tags) {
            match counters::family(name) {
                None => drop(totals.insert(name.to_owned(), value)),
                Some((family, member)) => {
                    families.entry(family.to_owned()).or_default().insert(member.to_owned(), value);
                }
            }
        }
        let ratios = (!totals.is_empty()).then(|| ratios(&totals, asked, answer));
        Self { totals, families, functions: functions(profile, tags), ratios }
    }

    /// The sections of a report.
    pub fn text(&self) -> String {
        let Some(ratios) = &self.ratios else { return String::new() };
        totals_text(&self.totals) + &families_text(&self.families) + &ratios.text() + &functions_text(&self.functions)
    }
}

fn get(values: &Values, name: &str) -> u64 {
    values.get(name).copied().unwrap_or_default()
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn totals_text(totals: &Values) -> String {
    let get = |name| get(totals, name);
    let mut text = "\nExecuted (docs/counters.md defines each; --format json has them all)\n".to_owned();
    let mut line = |name: &str, count: u64, more: String| {
        let _ = writeln!(text, "  {name:<14}{:>19}  {more}", number(count));
    };
    let bits = |name| format!("{} bits in and out", number(get(name)));
    line("instructions", get("instructions"), format!("in {} basic blocks", number(get("blocks"))));
    line("loads", get("loads"), format!("{} bytes", number(get("bytes_loaded"))));
    line("stores", get("stores"), format!("{} bytes", number(get("bytes_stored"))));
    for (name, calls, bytes) in [("copies", "memcpy_calls", "memcpy_bytes"), ("fills", "memset_calls", "memset_bytes")]
    {
        if get(calls) > 0 {
            line(name, get(calls), format!("{} bytes, in loads and stores too", number(get(bytes))));
        }
    }
    line("flops", get("flops"), bits("flop_bits"));
    line("integer ops", get("int_ops"), bits("op_bits") + " with those of flops");
    let (indirect, invokes) = (number(get("calls_indirect")), number(get("invokes")));
    line("calls", get("calls"), format!("{indirect} indirect, {invokes} that may catch exceptions"));
    let (taken, both) = (get("branches_taken"), get("branches_taken") + get("branches_not_taken"));
    let (share, returns) = (percent(ratio(taken, both)), number(get("returns")));
    let switches = match get("branches_switch") {
        0 => String::new(),
        switches => format!(", {} by switch", number(switches)),
    };
    let conditional = number(both);
    line(
        "branches",
        get("branches"),
        format!("{conditional} conditional ({share} taken){switches}, {returns} returns"),
    );
    if get("vector_ops") > 0 {
        let (elements, bits) = (number(get("vector_elements")), number(get("vector_bits")));
        line("vector ops", get("vector_ops"), format!("{elements} elements, {bits} bits"));
    }
    text
}

fn families_text(families: &BTreeMap<String, Values>) -> String {
    let mut text = String::new();
    // Calls are named at the top of the report.
    for (family, members) in families.iter().filter(|(family, _)| *family != "calls_to") {
        let _ = writeln!(text, "\nExecuted, {family}");
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        for (member, count) in members.iter().take(MOST_MEMBERS) {
            let _ = writeln!(text, "  {:>19}  {}", number(**count), shortened(&short(member)));
        }
        if members.len() > MOST_MEMBERS {
            let _ = writeln!(text, "  and {} more", members.len() - MOST_MEMBERS);
        }
    }
    text
}

fn functions(profile: &Profile, tags: &[String]) -> Vec<Function> {
    let of = |(function, values): (&bf_profile::CountedFunction, counters::Values<'_>)| Function {
        name: function.name.clone(),
        file: Some(function.file.clone()).filter(|file| !file.is_empty()),
        line: Some(function.line).filter(|&line| line > 0),
        counters: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    let mut functions: Vec<_> = counters::by_function(profile, tags).into_iter().map(of).collect();
    functions.sort_by_key(|function| std::cmp::Reverse(get(&function.counters, "instructions")));
    functions
}

fn functions_text(functions: &[Function]) -> String {
    const COLUMNS: [&str; 7] = ["entries", "instructions", "loads", "stores", "flops", "int_ops", "calls"];
    let header = ["function"].iter().chain(&COLUMNS).map(|name| name.replace('_', " ")).collect();
    let row = |function: &Function| {
        let numbers = COLUMNS.iter().map(|name| number(get(&function.counters, name)));
        [shortened(&whole(&function.name))].into_iter().chain(numbers).collect()
    };
    let more = functions.len().saturating_sub(MOST_FUNCTIONS);
    let rest = if more > 0 { format!("and {more} more\n") } else { String::new() };
    let rows = functions.iter().take(MOST_FUNCTIONS).map(row).collect();
    format!("\nExecuted, by function with what was inlined into it\n{}{rest}", table(header, rows))
}

fn ratios(totals: &Values, asked: &[Cache], answer: Option<&Answer>) -> Ratios {
    let get = |name| get(totals, name);
    let (bytes, flops) = (get("bytes_loaded") + get("bytes_stored"), get("flops"));
    let ops = flops + get("int_ops");
    let levels = answer.map_or(&[][..], |answer| &answer.levels);
    let level = |name: &str| levels.iter().find(|level| level.name == name);
    // What a cache serves is the traffic of the one above it: unknown where that is not in the answer. Without caches the program
    // has its bytes from memory.
    let names = asked.iter().map(|cache| cache.name.as_str()).chain(["memory"]);
    let served = [Some(bytes)].into_iter().chain(asked.iter().map(|cache| level(&cache.name)?.traffic_bytes));
    let answered = names.zip(served).filter(|(name, _)| *name == "memory" || level(name).is_some());
    let intensity = |(level, bytes): (&str, Option<u64>)| Intensity {
        level: level.to_owned(),
        bytes,
        flops_per_byte: bytes.and_then(|bytes| ratio(flops, bytes)),
    };
    Ratios {
        bytes_per_flop: ratio(bytes, flops),
        ops_per_load: ratio(ops, get("loads")),
        ops_per_branch: ratio(ops, get("branches")),
        instructions_per_block: ratio(get("instructions"), get("blocks")),
        vector_share: totals.get("vector_elements").and_then(|&elements| ratio(elements, ops)),
        flops_per_byte: answered.map(intensity).collect(),
    }
}

impl Ratios {
    fn text(&self) -> String {
        let shown = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let mut text = "\nRatios\n".to_owned();
        for (name, ratio) in [
            ("bytes per flop", self.bytes_per_flop),
            ("ops per load", self.ops_per_load),
            ("ops per branch", self.ops_per_branch),
            ("instructions per block", self.instructions_per_block),
        ] {
            let _ = writeln!(text, "  {name:<24}{:>9}", shown(ratio));
        }
        if self.vector_share.is_some() {
            let _ = writeln!(text, "  {:<24}{:>9}", "vector share of ops", percent(self.vector_share));
        }
        if self.flops_per_byte.iter().any(|each| each.flops_per_byte > Some(0.0)) {
            let each = self.flops_per_byte.iter().map(|each| format!("{} {}", each.level, shown(each.flops_per_byte)));
            let _ = writeln!(text, "  flops per byte served by {}", each.collect::<Vec<_>>().join(", "));
        }
        text
    }
}
