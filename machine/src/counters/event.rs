//! Events: what they are called, how the kernel is asked for them, and what they claim to count.

use crate::witness::Identity;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The events that come with bf, by microarchitecture.
pub const TABLES: &str = include_str!("../../events.toml");

/// Something that an exercise does a known number of times. Levels count from 1, the nearest data cache; the one after the
/// last cache is memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Load instructions.
    Loads,
    /// Store instructions.
    Stores,
    /// Both.
    Accesses,
    /// Lines brought into a level, for whatever reason.
    Into(u32),
    /// Lines written back out of a level.
    OutOf(u32),
    /// Loads that a level served, prefetching aside; `From(0)` is memory, whatever the number of caches.
    From(u32),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loads => f.write_str("loads"),
            Self::Stores => f.write_str("stores"),
            Self::Accesses => f.write_str("loads and stores"),
            Self::Into(level) => write!(f, "lines into L{level}"),
            Self::OutOf(level) => write!(f, "lines out of L{level}"),
            Self::From(0) => f.write_str("loads served by memory"),
            Self::From(level) => write!(f, "loads served by L{level}"),
        }
    }
}

impl FromStr for Quantity {
    type Err = String;

    /// `loads`, `stores`, `accesses`, `into:1`, `out:1`, `from:2`, `from:memory`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("`{text}` is no quantity");
        let (word, level) = text.split_once(':').unwrap_or((text, ""));
        let level = || level.parse().ok().filter(|level| (1..=4).contains(level)).ok_or_else(fail);
        match (word, text) {
            (_, "loads") => Ok(Self::Loads),
            (_, "stores") => Ok(Self::Stores),
            (_, "accesses") => Ok(Self::Accesses),
            (_, "from:memory") => Ok(Self::From(0)),
            ("into", _) => Ok(Self::Into(level()?)),
            ("out", _) => Ok(Self::OutOf(level()?)),
            ("from", _) => Ok(Self::From(level()?)),
            _ => Err(fail()),
        }
    }
}

/// How the kernel is asked for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// Fields of a unit's own events; the unit's name, of which there may be several with numbers behind.
    Unit {
        /// `cpu` for the cores; anything else counts for all programs and cores.
        unit: String,
        /// Fields as `/sys/bus/event_source/devices/UNIT/format` names them.
        fields: BTreeMap<String, u64>,
    },
    /// One of the kernel's own names: see [`GENERIC`].
    Generic(&'static str),
    /// Not the kernel's: a backend's own.
    Own,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As the vendor's manual or the kernel names it.
    pub name: String,
    /// How to ask for it.
    pub code: Code,
    /// What it claims to count.
    pub claims: Quantity,
}

/// The kernel's own names, with what they claim (perf_event_open(2)).
pub const GENERIC: [(&str, Quantity); 5] = [
    ("L1-dcache-loads", Quantity::Loads),
    ("L1-dcache-load-misses", Quantity::Into(1)),
    ("LLC-load-misses", Quantity::From(0)),
    ("cache-references", Quantity::Into(2)),
    ("cache-misses", Quantity::From(0)),
];

/// A table of `events.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    vendor: String,
    #[serde(default)]
    family: Vec<u32>,
    /// First and last model of each range.
    models: Vec<[u32; 2]>,
    #[expect(dead_code, reason = "for readers of the file, and required of its writers")]
    source: String,
    events: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    claims: String,
    #[serde(default = "core_unit")]
    unit: String,
    #[serde(flatten)]
    fields: BTreeMap<String, u64>,
}

fn core_unit() -> String {
    "cpu".to_owned()
}

/// Names and events of all tables that fit a processor, and the kernel's own events behind them.
///
/// # Errors
/// A table has a mistake: what, and where.
pub fn events(text: &str, identity: Option<&Identity>) -> Result<(Vec<String>, Vec<Event>), String> {
    let tables: BTreeMap<String, Table> = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut names = Vec::new();
    let mut events = Vec::new();
    for (name, table) in tables {
        let mut parsed = Vec::new();
        for (event, entry) in table.events {
            let claims = entry.claims.parse().map_err(|error| format!("{name}, {event}: {error}"))?;
            parsed.push(Event { name: event, code: Code::Unit { unit: entry.unit, fields: entry.fields }, claims });
        }
        let fits = identity.is_some_and(|identity| {
            identity.vendor == table.vendor
                && (table.family.is_empty() || table.family.contains(&identity.family))
                && table.models.iter().any(|[first, last]| (*first..=*last).contains(&identity.model))
        });
        if fits {
            names.push(name);
            events.extend(parsed);
        }
    }
    events.extend(GENERIC.map(|(name, claims)| Event { name: name.to_owned(), code: Code::Generic(name), claims }));
    Ok((names, events))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(vendor: &str, family: u32, model: u32) -> Identity {
        Identity { vendor: vendor.to_owned(), family, model, stepping: 0 }
    }

    #[test]
    fn the_tables_know_the_processors_they_are_for() {
        for (vendor, family, model, name, event) in [
            ("GenuineIntel", 6, 0x2d, "Sandy Bridge", "mem_load_uops_retired.l2_hit"),
            ("GenuineIntel", 6, 0x3e, "Ivy Bridge", "l1d.replacement"),
            ("GenuineIntel", 6, 0x3f, "Haswell and Broadwell", "mem_load_uops_retired.l3_hit"),
            ("GenuineIntel", 6, 0x55, "Skylake server", "mem_load_retired.l3_miss"),
            ("GenuineIntel", 6, 0x6a, "Ice Lake server", "unc_m_cas_count.rd"),
            ("GenuineIntel", 6, 0x8f, "Sapphire Rapids", "unc_m_cas_count.wr"),
            ("AuthenticAMD", 23, 0x01, "Zen 1", "ls_dispatch.ld_dispatch"),
            ("AuthenticAMD", 23, 0x31, "Zen 2", "l3_comb_clstr_state.request_miss"),
            ("AuthenticAMD", 25, 0x01, "Zen 3", "ls_dmnd_fills_from_sys.lcl_l2"),
            ("AuthenticAMD", 25, 0x11, "Zen 4", "umc_cas_cmd.rd"),
            ("AuthenticAMD", 26, 0x02, "Zen 5", "ls_dmnd_fills_from_sys.local_l2"),
            ("0x41", 0, 0xd40, "Neoverse V1", "l2d_cache_refill"),
        ] {
            let (names, events) = events(TABLES, Some(&identity(vendor, family, model))).unwrap();
            assert!(names.iter().any(|found| found == name), "{vendor} {family} {model:#x}: {names:?}");
            assert!(events.iter().any(|found| found.name == event), "{name} has no {event}");
        }
    }

    #[test]
    fn an_unknown_processor_has_the_kernel_s_own_events() {
        let (names, events) = events(TABLES, None).unwrap();
        assert!(names.is_empty());
        assert_eq!(events.len(), GENERIC.len());
    }

    #[test]
    fn mistakes_are_named() {
        let table = "[x]\nvendor='a'\nmodels=[[0,1]]\nsource='s'\n[x.events.e]\nclaims='into:9'\nevent=1";
        assert_eq!(events(table, None).unwrap_err(), "x, e: `into:9` is no quantity");
        assert!(events("[x]\nvendor='a'", None).is_err());
        let words = ["loads", "stores", "accesses", "into:1", "out:2", "from:3", "from:memory"];
        assert!(words.iter().all(|word| word.parse::<Quantity>().is_ok()));
        assert!(["into", "from:0", "x:1", ""].iter().all(|word| word.parse::<Quantity>().is_err()));
    }
}
