//! Machines as hierarchies of data caches: the presets, a user's files, and what a profile says of where it was recorded.

use crate::{
    error::MachineError,
    size,
    spec::{Cache, Scope, Ways},
};
use bf_profile::{CacheKind, CacheLevel};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The presets that come with bf. `docs/presets.md` describes the form.
pub const PRESETS: &str = include_str!("../presets.toml");

/// The preset that stands in where a profile does not say what it was recorded on.
pub const FALLBACK: &str = "skylake-sp";

/// A named machine of a presets file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The processor, as its vendor calls it.
    pub cpu: String,
    /// Where the numbers are from.
    pub source: String,
    /// Data caches, nearest first.
    pub levels: Vec<PresetLevel>,
}

/// One cache of a preset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetLevel {
    name: String,
    size: Size,
    ways: WaysValue,
    line: u32,
    #[serde(default)]
    scope: Scope,
    #[serde(default)]
    hashed: bool,
    #[serde(default)]
    exclusive: bool,
}

/// Bytes, or text such as `32K`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a size is a number of bytes, or text such as 32K")]
enum Size {
    Bytes(u64),
    Text(String),
}

/// A number, or `full`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "ways are a number, or full")]
enum WaysValue {
    Number(u64),
    Text(String),
}

impl Size {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) if (1..=size::MOST).contains(bytes) => Ok(*bytes),
            Self::Bytes(bytes) => Err(format!("{bytes} is no size")),
            Self::Text(text) => size::parse(text).ok_or_else(|| format!("`{text}` is no size")),
        }
    }
}

impl WaysValue {
    fn ways(&self) -> Result<Ways, String> {
        match self {
            Self::Number(0) => Err("0 is no number of ways".to_owned()),
            Self::Number(ways) => Ok(Ways::Number(*ways)),
            Self::Text(text) => text.parse().map_err(|error| format!("{error}")),
        }
    }
}

impl PresetLevel {
    fn cache(&self) -> Result<Cache, String> {
        Ok(Cache {
            name: self.name.clone(),
            size: self.size.bytes()?,
            ways: self.ways.ways()?,
            line: Some(self.line),
            scope: self.scope,
            hashed: self.hashed,
            exclusive: self.exclusive,
        })
    }
}

impl Preset {
    /// Its hierarchy.
    ///
    /// # Errors
    /// What is wrong with it, as a fragment of a sentence.
    pub fn caches(&self) -> Result<Vec<Cache>, String> {
        let caches = self.levels.iter().map(PresetLevel::cache).collect::<Result<Vec<_>, _>>()?;
        check(&caches)?;
        Ok(caches)
    }
}

/// Whether a hierarchy can be asked about at all.
fn check(caches: &[Cache]) -> Result<(), String> {
    crate::query::check_order(caches).map_err(|error| error.to_string())?;
    for cache in caches {
        cache.shape(cache.line.as_slice()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Machines by name.
pub type Presets = BTreeMap<String, Preset>;

/// Reads a presets file; `origin` names it in errors.
///
/// # Errors
/// It is no TOML, or a machine in it is not described as `docs/presets.md` asks.
pub fn presets(text: &str, origin: &str) -> Result<Presets, MachineError> {
    let fail = |message: String| MachineError::Presets { origin: origin.to_owned(), message };
    let presets: Presets = toml::from_str(text).map_err(|error| fail(on_one_line(text, &error)))?;
    for (name, preset) in &presets {
        preset.caches().map_err(|message| fail(format!("{name}: {message}")))?;
    }
    Ok(presets)
}

/// What is wrong with a TOML text, without the excerpt that the reader would draw below it.
pub(crate) fn on_one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim().replace('\n', ", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// A machine from the text of a TOML file that describes a single one, in the form of a preset without its name or as a
/// presets file with one entry.
///
/// # Errors
/// It is neither.
pub fn from_toml(text: &str, origin: &str) -> Result<Vec<Cache>, MachineError> {
    let fail = |message: String| MachineError::File { origin: origin.to_owned(), message };
    // Machines with a name are tables and nothing else.
    let machines = toml::from_str::<toml::Table>(text).map_err(|error| fail(on_one_line(text, &error)))?;
    if machines.values().any(|value| !value.is_table()) {
        let preset: Preset = toml::from_str(text).map_err(|error| fail(on_one_line(text, &error)))?;
        return preset.caches().map_err(fail);
    }
    let presets = presets(text, origin)?;
    let mut machines = presets.values();
    match (machines.next(), machines.next()) {
        (Some(only), None) => only.caches().map_err(fail),
        _ => Err(fail(format!("it describes {} machines, not one", presets.len()))),
    }
}

/// A machine file in JSON: levels as an answer of `bf query` names them, or a list of caches as other tools print it.
#[derive(Debug, Deserialize)]
struct JsonMachine {
    #[serde(default)]
    levels: Vec<JsonLevel>,
    #[serde(default)]
    caches: Vec<JsonCache>,
}

/// A level in our own words.
#[derive(Debug, Deserialize)]
struct JsonLevel {
    name: String,
    #[serde(alias = "size")]
    size_bytes: Size,
    ways: WaysValue,
    #[serde(alias = "line")]
    line_bytes: Option<u32>,
    #[serde(default)]
    scope: Scope,
    #[serde(default)]
    hashed: bool,
    #[serde(default)]
    exclusive: bool,
}

/// A cache in the words of a topology tool.
#[derive(Debug, Deserialize)]
struct JsonCache {
    name: String,
    #[serde(alias = "size")]
    size_bytes: Size,
    ways: Option<WaysValue>,
    #[serde(alias = "line")]
    line_bytes: Option<u32>,
    sharing: Option<Sharing>,
    #[serde(alias = "kind", alias = "type")]
    holds: Option<String>,
}

/// Who shares a cache: how many logical CPUs, which, or a word for them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "sharing is a number of CPUs, a list of them, or a word")]
enum Sharing {
    Count(u64),
    Which(Vec<serde_json::Value>),
    Word(String),
}

impl Sharing {
    /// How many logical CPUs; a word that means a single core counts as one, any other as many.
    fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Which(cpus) => cpus.len() as u64,
            Self::Word(word) => match word.to_ascii_lowercase().as_str() {
                "private" | "core" | "thread" | "none" | "percore" | "per-core" | "per core" => 1,
                list => cpu_list(list).unwrap_or(u64::MAX),
            },
        }
    }
}

/// Number of CPUs in a list such as `0-3,8`; `None` if it is no such list.
#[must_use]
pub fn cpu_list(text: &str) -> Option<u64> {
    text.trim().split(',').try_fold(0u64, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// A machine from the text of a JSON file, in either of the forms of `docs/presets.md`.
///
/// # Errors
/// It has neither form, or describes caches that cannot be.
pub fn from_json(text: &str, origin: &str) -> Result<Vec<Cache>, MachineError> {
    let fail = |message: String| MachineError::File { origin: origin.to_owned(), message };
    let machine: JsonMachine = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
    let caches = if machine.levels.is_empty() { tool_caches(&machine.caches) } else { own_levels(&machine.levels) };
    let caches = caches.map_err(fail)?;
    if caches.is_empty() {
        return Err(MachineError::NoCaches(origin.to_owned()));
    }
    check_order(&caches, origin)?;
    Ok(caches)
}

fn check_order(caches: &[Cache], origin: &str) -> Result<(), MachineError> {
    crate::query::check_order(caches)
        .map_err(|error| MachineError::File { origin: origin.to_owned(), message: error.to_string() })
}

fn own_levels(levels: &[JsonLevel]) -> Result<Vec<Cache>, String> {
    let cache = |level: &JsonLevel| {
        Ok(Cache {
            name: level.name.clone(),
            size: level.size_bytes.bytes()?,
            ways: level.ways.ways()?,
            line: level.line_bytes,
            scope: level.scope,
            hashed: level.hashed,
            exclusive: level.exclusive,
        })
    };
    levels.iter().map(cache).collect()
}

fn tool_caches(caches: &[JsonCache]) -> Result<Vec<Cache>, String> {
    let data = |cache: &&JsonCache| match &cache.holds {
        Some(kind) => !kind.to_ascii_lowercase().starts_with("instr"),
        None => !cache.name.to_ascii_lowercase().ends_with('i'),
    };
    let least = caches.iter().filter(data).filter_map(|cache| cache.sharing.as_ref()).map(Sharing::count).min();
    let convert = |cache: &JsonCache| {
        // Hyper-threads share a first level too: shared is what more CPUs share than the nearest cache.
        let shared =
            cache.sharing.as_ref().is_some_and(|sharing| Some(sharing.count()) > least.map(|least| least.max(1)));
        let size = cache.size_bytes.bytes()?;
        let ways = cache.ways.as_ref().map_or(Ok(Ways::Full), WaysValue::ways)?;
        Ok(Cache {
            name: cache.name.clone(),
            size,
            ways,
            line: cache.line_bytes,
            scope: if shared { Scope::Shared } else { Scope::Private },
            hashed: level_number(&cache.name) >= 3,
            exclusive: false,
        })
    };
    caches.iter().filter(data).map(convert).collect()
}

/// The digit of a name such as `L3`; 0 if there is none. Caches from the third level on are cut into slices by a hash of
/// the address on every machine that has them.
fn level_number(name: &str) -> u32 {
    name.chars().find_map(|c| c.to_digit(10)).unwrap_or(0)
}

/// The data caches of a machine as its operating system describes them, nearest first; empty if it says nothing.
#[must_use]
pub fn from_topology(levels: &[CacheLevel]) -> Vec<Cache> {
    let usable = |level: &&CacheLevel| {
        level.kind != CacheKind::Instruction && level.size > 0 && level.line.is_power_of_two() && level.line >= 8
    };
    let mut levels: Vec<&CacheLevel> = levels.iter().filter(usable).collect();
    levels.sort_by_key(|level| level.level);
    let least = levels.iter().map(|level| level.shared_by).min().unwrap_or(1).max(1);
    let mut caches: Vec<Cache> = Vec::new();
    for level in levels {
        let name = format!("L{}", level.level);
        let ways = match level.ways {
            0 => Ways::Full,
            ways => Ways::Number(u64::from(ways)),
        };
        // Systems round sizes; the nearest size below that a cache can have stands for them.
        let unit = u64::from(level.line) * u64::from(level.ways.max(1));
        let size = level.size / unit * unit;
        if size == 0 || caches.iter().any(|cache| cache.name == name) {
            continue;
        }
        // A virtual machine of one CPU shares nothing, and yet its third level is no core's own. What stands below a
        // shared cache is shared by at least as many.
        let below_shared = caches.last().is_some_and(|cache| cache.scope == Scope::Shared);
        let shared = level.shared_by > least || level.level >= 3 || below_shared;
        let scope = if shared { Scope::Shared } else { Scope::Private };
        caches.push(Cache {
            name,
            size,
            ways,
            line: Some(level.line),
            scope,
            hashed: level.level >= 3,
            exclusive: false,
        });
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_hierarchy_with_a_source() {
        let presets = presets(PRESETS, "presets.toml").unwrap();
        assert!(presets.len() >= 12);
        for (name, preset) in &presets {
            assert!(!preset.source.is_empty() && !preset.cpu.is_empty(), "{name}");
            assert!(preset.levels.len() >= 2, "{name}");
        }
        assert!(presets.contains_key(FALLBACK));
        let haswell = presets["haswell-i7-4770k"].caches().unwrap();
        let shapes: Vec<_> = haswell.iter().map(|cache| (cache.size, cache.ways)).collect();
        let ways = Ways::Number;
        assert_eq!(shapes, [(32 << 10, ways(8)), (256 << 10, ways(8)), (8 << 20, ways(16))]);
    }

    #[test]
    fn a_presets_file_with_a_mistake_names_it() {
        for (text, word) in [
            ("[a]\ncpu='x'\nsource='y'\nlevels=[{name='L1',size='30q',ways=8,line=64}]", "30q"),
            ("[a]\ncpu='x'\nsource='y'\nlevels=[{name='L1',size=1000,ways=8,line=64}]", "nearest"),
            ("[a]\ncpu='x'\nsource='y'\nlevels=[{name='L1',size=1024,wayz=8,line=64}]", "wayz"),
            ("[a]\ncpu='x'\n[b", "line 3"),
        ] {
            let error = presets(text, "mine.toml").unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("mine.toml") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn one_machine_in_toml() {
        let level = "levels=[{name='L1',size='32K',ways='full',line=64,hashed=true}]";
        for text in [format!("cpu='x'\nsource='y'\n{level}"), format!("[a]\ncpu='x'\nsource='y'\n{level}")] {
            let caches = from_toml(&text, "one.toml").unwrap();
            assert_eq!((caches.len(), caches[0].ways, caches[0].hashed), (1, Ways::Full, true));
        }
    }

    #[test]
    fn a_machine_with_a_mistake_names_it() {
        let head = "cpu='x'\nsource='y'";
        for (level, word) in [
            ("name='L1',size='32K',ways=8,line=64,foo=1", "line 3: unknown field `foo`"),
            ("name='L1',size=-1,ways=8,line=64", "line 3: a size is a number of bytes"),
            ("name='L1',size='32K',ways=8.5,line=64", "line 3: ways are a number"),
            ("name='L1',size='32K',ways=8,line=48", "line size 48 is no power of two"),
            ("name='L1',size='32K',ways=8,line=0", "line size 0 is no power of two"),
        ] {
            for name in ["", "[a]\n"] {
                let error =
                    from_toml(&format!("{name}{head}\nlevels=[{{{level}}}]"), "one.toml").unwrap_err().to_string();
                let word = if name.is_empty() { word.to_owned() } else { word.replace("line 3", "line 4") };
                assert!(error.starts_with("one.toml ") && error.contains(&word), "{error}");
            }
        }
        let error = from_json(r#"{"levels":[{"name":"L1","size_bytes":1e30,"ways":8}]}"#, "x.json").unwrap_err();
        assert!(error.to_string().contains("a size is a number of bytes"), "{error}");
    }

    #[test]
    fn json_in_our_own_words_and_in_a_topology_tool_s() {
        let own = r#"{"schema":"x","levels":[{"name":"L1","size_bytes":32768,"ways":8,"line_bytes":64},
            {"name":"L2","size":"1M","ways":"full","scope":"shared","hashed":true,"other":1}]}"#;
        let caches = from_json(own, "own.json").unwrap();
        assert_eq!((caches[1].size, caches[1].ways, caches[1].scope), (1 << 20, Ways::Full, Scope::Shared));
        let tool = r#"{"caches":[{"name":"L1d","size_bytes":49152,"ways":12,"line_bytes":64,"sharing":"0,4"},
            {"name":"L1i","size_bytes":32768,"ways":8,"line_bytes":64,"sharing":"0,4"},
            {"name":"L2","size_bytes":2097152,"ways":16,"line_bytes":64,"sharing":2},
            {"name":"L3","size_bytes":33554432,"ways":16,"line_bytes":64,"sharing":"shared"}]}"#;
        let caches = from_json(tool, "tool.json").unwrap();
        let seen: Vec<_> = caches.iter().map(|cache| (cache.name.as_str(), cache.scope, cache.hashed)).collect();
        assert_eq!(seen, [("L1d", Scope::Private, false), ("L2", Scope::Private, false), ("L3", Scope::Shared, true)]);
        assert!(matches!(from_json("{}", "x"), Err(MachineError::NoCaches(_))));
        assert!(matches!(from_json("[", "x"), Err(MachineError::File { .. })));
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(
            (cpu_list("0-3,8"), cpu_list("5"), cpu_list("socket"), cpu_list("3-1")),
            (Some(5), Some(1), None, None)
        );
    }

    #[test]
    fn a_topology_s_instruction_caches_and_gaps_are_left_out() {
        let level =
            |level, kind, size, ways, shared_by| CacheLevel { level, kind, size, ways, line: 64, sets: 0, shared_by };
        let caches = from_topology(&[
            level(1, CacheKind::Data, 48 << 10, 12, 2),
            level(1, CacheKind::Instruction, 32 << 10, 8, 2),
            level(2, CacheKind::Unified, 2 << 20, 16, 2),
            level(3, CacheKind::Unified, (30 << 20) + 17, 0, 16),
            level(4, CacheKind::Unified, 0, 0, 16),
        ]);
        let seen: Vec<_> = caches.iter().map(|cache| (cache.name.as_str(), cache.size, cache.scope)).collect();
        assert_eq!(
            seen,
            [("L1", 48 << 10, Scope::Private), ("L2", 2 << 20, Scope::Private), ("L3", 30 << 20, Scope::Shared)]
        );
    }
}
