//! What a cache costs: latency, energy or area as a function of its size and associativity, from tables that the user
//! writes. Nothing is built in: such figures hold for one technology and one design, and bf has measured none of them.

use crate::{machine::on_one_line, size};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A table that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// The file is not what it should be.
    #[error("{origin}: {message}")]
    File {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        message: String,
    },
    /// A level that the table does not have.
    #[error("{origin} says nothing of {level}; add [level.{level}]")]
    Level {
        /// Where the table came from.
        origin: String,
        /// The level.
        level: String,
    },
    /// A size that the rows of a level do not cover.
    #[error("{origin}: {level} has rows from {} to {}, and {} is asked for; add a row", size::format(*first), size::format(*last), size::format(*size))]
    Size {
        /// Where the table came from.
        origin: String,
        /// The level.
        level: String,
        /// Bytes asked for.
        size: u64,
        /// Size of the first row.
        first: u64,
        /// Size of the last row.
        last: u64,
    },
}

/// A table as `docs/sweep.md` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    unit: String,
    memory: Option<f64>,
    limit: Option<f64>,
    #[serde(default)]
    level: BTreeMap<String, FileCost>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCost {
    #[serde(default)]
    constant: f64,
    #[serde(default)]
    per_kib: f64,
    #[serde(default)]
    per_way: f64,
    #[serde(default)]
    by_size: BTreeMap<String, f64>,
}

/// Cost of each level by its size and ways.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Where it came from, for messages.
    pub origin: String,
    /// Unit of all figures, a word for headings.
    pub unit: String,
    /// Cost of an access to memory, where the table is about accesses.
    pub memory: f64,
    levels: BTreeMap<String, Cost>,
}

/// `constant + per_kib * KiB + per_way * ways`, and the rows by size: linear in the logarithm of the size between two.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cost {
    constant: f64,
    per_kib: f64,
    per_way: f64,
    by_size: BTreeMap<u64, f64>,
}

impl Table {
    /// A table of latencies or energies, which must say what memory costs.
    ///
    /// # Errors
    /// The text is no such table.
    pub fn accesses(text: &str, origin: &str) -> Result<Self, CostError> {
        let file = parse(text, origin)?;
        let fail = |message: &str| CostError::File { origin: origin.to_owned(), message: message.to_owned() };
        if file.limit.is_some() {
            return Err(fail("`limit` belongs to a budget"));
        }
        let memory = file.memory.ok_or_else(|| fail("it lacks `memory`, the cost of an access to memory"))?;
        Self::new(file, memory, origin)
    }

    /// Latencies as `bf machine latency --format json` measured them: of each level the median over the sizes that fit into
    /// it. They hold for that machine's caches, whatever sizes are asked about.
    ///
    /// # Errors
    /// The text is no such document, or has no latencies.
    pub fn measured(text: &str, origin: &str) -> Result<Self, CostError> {
        #[derive(Deserialize)]
        struct Document {
            #[serde(default)]
            latency: Vec<Point>,
        }
        #[derive(Deserialize)]
        struct Point {
            level: String,
            ns: f64,
        }
        let fail = |message: String| CostError::File { origin: origin.to_owned(), message };
        let document: Document = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        let mut levels: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for Point { level, ns } in document.latency {
            // The topology calls the first one L1d.
            let name = level.strip_suffix('d').filter(|name| name.starts_with('L')).unwrap_or(&level);
            levels.entry(name.to_owned()).or_default().push(ns);
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let mut levels: BTreeMap<String, f64> = levels.into_iter().map(|(name, all)| (name, median(all))).collect();
        let memory = levels.remove("memory");
        let memory = memory.ok_or_else(|| {
            let mend = "make it with `bf machine latency --format json > FILE.json`";
            fail(match levels.is_empty() {
                true => format!("it has no latencies; {mend}"),
                false => format!("it has no latency of memory; {mend} and a --max-size beyond the last cache"),
            })
        })?;
        let levels = levels.into_iter().map(|(name, constant)| (name, Cost { constant, ..Cost::default() })).collect();
        Ok(Self { origin: origin.to_owned(), unit: "ns".to_owned(), memory, levels })
    }

    fn new(file: File, memory: f64, origin: &str) -> Result<Self, CostError> {
        let fail = |message: String| CostError::File { origin: origin.to_owned(), message };
        if !memory.is_finite() || memory < 0.0 {
            return Err(fail(format!("`memory` cannot be {memory}")));
        }
        if file.level.is_empty() {
            return Err(fail("it has no level; add [level.L1] and so on".to_owned()));
        }
        let mut levels = BTreeMap::new();
        for (name, FileCost { constant, per_kib, per_way, by_size }) in file.level {
            let all = [constant, per_kib, per_way].into_iter().chain(by_size.values().copied());
            if let Some(wrong) = all.clone().find(|value| !value.is_finite() || *value < 0.0) {
                return Err(fail(format!("{name}: a cost cannot be {wrong}")));
            }
            if all.sum::<f64>() == 0.0 {
                return Err(fail(format!("{name} costs nothing; give it constant, per_kib, per_way or by_size")));
            }
            let mut rows = BTreeMap::new();
            for (text, value) in by_size {
                let bytes = size::parse(&text).ok_or_else(|| fail(format!("{name}: `{text}` is no size")))?;
                rows.insert(bytes, value);
            }
            levels.insert(name, Cost { constant, per_kib, per_way, by_size: rows });
        }
        Ok(Self { origin: origin.to_owned(), unit: file.unit, memory, levels })
    }

    /// Cost of a cache of the level called `level`.
    ///
    /// # Errors
    /// The table does not have the level, or no rows around that size.
    pub fn of(&self, level: &str, size: u64, ways: u64) -> Result<f64, CostError> {
        let origin = || self.origin.clone();
        let cost = self.levels.get(level);
        let cost = cost.ok_or_else(|| CostError::Level { origin: origin(), level: level.to_owned() })?;
        let row = cost.row(size).map_err(|[first, last]| CostError::Size {
            origin: origin(),
            level: level.to_owned(),
            size,
            first,
            last,
        })?;
        Ok(cost.constant + cost.per_kib * (size as f64 / 1024.0) + cost.per_way * ways as f64 + row)
    }
}

impl Cost {
    /// The part that the rows give; the first and last size there are, if this one does not lie between them.
    fn row(&self, size: u64) -> Result<f64, [u64; 2]> {
        let (Some((&first, _)), Some((&last, _))) = (self.by_size.first_key_value(), self.by_size.last_key_value())
        else {
            return Ok(0.0);
        };
        let below = self.by_size.range(..=size).next_back();
        let above = self.by_size.range(size..).next();
        match (below, above) {
            (Some((low, at)), Some((high, _))) if low == high => Ok(*at),
            (Some((&low, from)), Some((&high, to))) => {
                let part = (size as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
                Ok(from + part * (to - from))
            }
            _ => Err([first, last]),
        }
    }
}

/// A sum over all levels that must not be exceeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// What it is called: the file's name without its ending.
    pub name: String,
    /// What each level costs.
    pub table: Table,
    /// The most that all levels together may cost.
    pub limit: f64,
}

impl Budget {
    /// A budget, which must have a limit; `name` is what it is called.
    ///
    /// # Errors
    /// The text is no such table.
    pub fn parse(text: &str, name: &str, origin: &str) -> Result<Self, CostError> {
        let file = parse(text, origin)?;
        let fail = |message: &str| CostError::File { origin: origin.to_owned(), message: message.to_owned() };
        if file.memory.is_some() {
            return Err(fail("`memory` belongs to a table of latencies or energies"));
        }
        let limit = file.limit.filter(|limit| limit.is_finite() && *limit >= 0.0);
        let limit = limit.ok_or_else(|| fail("it lacks `limit`, the most that all levels together may cost"))?;
        Ok(Self { name: name.to_owned(), table: Table::new(file, 0.0, origin)?, limit })
    }
}

fn parse(text: &str, origin: &str) -> Result<File, CostError> {
    toml::from_str(text)
        .map_err(|error| CostError::File { origin: origin.to_owned(), message: on_one_line(text, &error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "
        unit = 'cycles'
        memory = 200
        [level.L1]
        by_size = { 16K = 3, 64K = 5 }
        per_way = 0.25
        [level.L2]
        constant = 10
        per_kib = 0.01
    ";

    #[test]
    fn costs_follow_size_and_ways() {
        let table = Table::accesses(LATENCY, "latency.toml").unwrap();
        assert_eq!((table.unit.as_str(), table.memory), ("cycles", 200.0));
        assert_eq!(table.of("L1", 16 << 10, 4), Ok(3.0 + 1.0));
        // Halfway in the logarithm.
        assert!((table.of("L1", 32 << 10, 8).unwrap() - (4.0 + 2.0)).abs() < 1e-12);
        assert_eq!(table.of("L2", 1 << 20, 16), Ok(10.0 + 10.24));
        let error = table.of("L1", 128 << 10, 8).unwrap_err().to_string();
        assert_eq!(error, "latency.toml: L1 has rows from 16K to 64K, and 128K is asked for; add a row");
        let error = table.of("L3", 1 << 20, 8).unwrap_err().to_string();
        assert_eq!(error, "latency.toml says nothing of L3; add [level.L3]");
    }

    #[test]
    fn tables_that_cannot_be_are_refused_in_one_line() {
        for (text, word) in [
            ("[level.L1]\nconstant=1", "memory"),
            ("memory=1", "no level"),
            ("memory=-1\n[level.L1]\nconstant=1", "-1"),
            ("memory=1\n[level.L1]\nconstant=nan", "NaN"),
            ("memory=1\n[level.L1]\nconst=1", "const"),
            ("memory=1\n[level.L1]", "costs nothing"),
            ("memory=1\nlimit=2\n[level.L1]\nconstant=1", "limit"),
            ("memory=1\n[level.L1]\nby_size={big=1}", "`big`"),
            ("memory=", "line 1"),
        ] {
            let error = Table::accesses(text, "t.toml").unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("t.toml") && !error.contains('\n'), "{text}: {error}");
        }
        assert!(Budget::parse("[level.L1]\nconstant=1", "t", "t.toml").unwrap_err().to_string().contains("limit"));
        let budget = Budget::parse("limit=3\nunit='mm2'\n[level.L1]\nper_kib=0.5", "area", "area.toml").unwrap();
        assert_eq!((budget.limit, budget.table.of("L1", 2048, 8)), (3.0, Ok(1.0)));
    }

    #[test]
    fn measured_latencies_are_medians_of_their_level() {
        let points = r#"{"latency":[{"level":"L1d","ns":1.0},{"level":"L1d","ns":1.2},{"level":"L1d","ns":9.0},
            {"level":"L2","ns":4.0},{"level":"memory","ns":80.5}]}"#;
        let table = Table::measured(points, "machine.json").unwrap();
        assert_eq!((table.of("L1", 1, 1), table.of("L2", 1, 1), table.memory), (Ok(1.2), Ok(4.0), 80.5));
        let error = |text| Table::measured(text, "machine.json").unwrap_err().to_string();
        let mend = "make it with `bf machine latency --format json > FILE.json`";
        assert_eq!(error("{}"), format!("machine.json: it has no latencies; {mend}"));
        let caches = error(r#"{"latency":[{"level":"L1d","ns":1.0}]}"#);
        assert!(caches.contains(mend) && caches.ends_with("and a --max-size beyond the last cache"), "{caches}");
    }
}
