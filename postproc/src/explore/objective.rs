//! What makes one hierarchy better than another, and which may not be built at all.

use super::cost::{Budget, CostError, Table};
use crate::{LevelAnswer, spec::Shape};
use std::{fmt, str::FromStr};

/// What is to be as small as possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Misses of a level; of the last one where none is named.
    Misses(Option<String>),
    /// Bytes between a level and the one below, both ways; of the last one, to and from memory, where none is named.
    Traffic(Option<String>),
    /// Average memory access time: what the levels' hits and the last one's misses take, by references.
    Amat,
    /// Energy of all accesses.
    Energy,
    /// Bytes of all levels together.
    Size,
    /// What a budget calls its cost.
    Cost(String),
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level.to_owned())));
        let plain = |objective| match &level {
            None => Ok(objective),
            Some(level) => Err(format!("`{text}`: {name} is of the whole hierarchy; leave `:{level}` out")),
        };
        match name {
            "misses" => Ok(Self::Misses(level)),
            "traffic" => Ok(Self::Traffic(level)),
            "amat" => plain(Self::Amat),
            "energy" => plain(Self::Energy),
            "size" => plain(Self::Size),
            "" => Err("an objective is misses, traffic, amat, energy, size or the name of a budget".to_owned()),
            _ => plain(Self::Cost(name.to_owned())),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, level) = match self {
            Self::Misses(level) => ("misses", level.as_ref()),
            Self::Traffic(level) => ("traffic", level.as_ref()),
            Self::Amat => ("amat", None),
            Self::Energy => ("energy", None),
            Self::Size => ("size", None),
            Self::Cost(name) => (name.as_str(), None),
        };
        f.write_str(name)?;
        level.map_or(Ok(()), |level| write!(f, ":{level}"))
    }
}

impl Objective {
    /// Whether it counts something: its values are whole numbers.
    #[must_use]
    pub fn is_count(&self) -> bool {
        matches!(self, Self::Misses(_) | Self::Traffic(_) | Self::Size)
    }
}

/// What objectives need to know of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Accesses that reach it.
    pub accesses: u64,
    /// Those that miss.
    pub misses: u64,
    /// Dirty lines written back; `None` where private caches pass them on to each other.
    pub writebacks: Option<u64>,
    /// Line size, bytes.
    pub line: u32,
    /// Size, bytes.
    pub size: u64,
}

impl From<&LevelAnswer> for Figures {
    fn from(level: &LevelAnswer) -> Self {
        let &LevelAnswer { references: accesses, misses, writebacks, line_bytes: line, size_bytes: size, .. } = level;
        Self { accesses, misses, writebacks, line, size }
    }
}

impl Figures {
    /// Bytes exchanged with the level below; `None` where write-backs are not known.
    #[must_use]
    pub fn traffic(&self) -> Option<u64> {
        self.writebacks.map(|writebacks| (self.misses + writebacks) * u64::from(self.line))
    }
}

/// What a cache costs by each table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Price {
    latency: f64,
    energy: f64,
    /// By budget.
    budgets: Vec<f64>,
}

/// What the caches of a hierarchy cost.
#[derive(Clone, Copy, Debug)]
pub struct Prices<'a> {
    /// Of each level all candidates.
    pub all: &'a [Vec<Price>],
    /// Which of them it is, level by level.
    pub picks: &'a [usize],
}

impl<'a> Prices<'a> {
    fn iter(self) -> impl Iterator<Item = &'a Price> {
        self.all.iter().zip(self.picks).map(|(level, &pick)| &level[pick])
    }
}

/// The tables that objectives and budgets are computed with.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// Of an access that hits a level, counted from its issue.
    pub latency: Option<Table>,
    /// Of an access to a level.
    pub energy: Option<Table>,
    /// What hierarchies may cost.
    pub budgets: Vec<Budget>,
    /// Objectives that may not be exceeded.
    pub limits: Vec<(Objective, f64)>,
}

impl Goal {
    /// Whether the tables are there that an objective needs, for levels of these names.
    ///
    /// # Errors
    /// What is missing, as a sentence.
    pub fn check(&self, objective: &Objective, levels: &[String]) -> Result<(), String> {
        match objective {
            Objective::Misses(Some(level)) | Objective::Traffic(Some(level)) if !levels.contains(level) => {
                Err(format!("`{objective}`: there is no level {level}"))
            }
            Objective::Amat if self.latency.is_none() => {
                Err("amat needs the levels' latencies; give --latency FILE.toml, or FILE.json of `bf machine`".into())
            }
            Objective::Energy if self.energy.is_none() => {
                Err("energy needs the levels' energies; give --energy FILE.toml".into())
            }
            Objective::Cost(name) if !self.budgets.iter().any(|budget| budget.name == *name) => Err(format!(
                "there is no objective `{name}`; there are misses, traffic, amat, energy, size and the name of each --budget"
            )),
            _ => Ok(()),
        }
    }

    /// Keeps the tables that one of these objectives needs: of the others caches may be asked about that they do not have.
    pub fn keep_needed(&mut self, objectives: &[Objective]) {
        self.latency = self.latency.take().filter(|_| objectives.contains(&Objective::Amat));
        self.energy = self.energy.take().filter(|_| objectives.contains(&Objective::Energy));
    }

    /// What a cache costs.
    ///
    /// # Errors
    /// A table says nothing of such a cache.
    pub fn price(&self, shape: &Shape) -> Result<Price, CostError> {
        let of = |table: &Table| table.of(&shape.name, shape.size, shape.ways);
        Ok(Price {
            latency: self.latency.as_ref().map_or(Ok(0.0), of)?,
            energy: self.energy.as_ref().map_or(Ok(0.0), of)?,
            budgets: self.budgets.iter().map(|budget| of(&budget.table)).collect::<Result<_, _>>()?,
        })
    }

    /// Cost by the budget of that number.
    #[must_use]
    pub fn cost(&self, budget: usize, prices: Prices<'_>) -> f64 {
        prices.iter().map(|price| price.budgets[budget]).sum()
    }

    /// Whether all budgets and limits are kept. A limit on what is not known is not.
    #[must_use]
    pub fn allows(&self, names: &[String], figures: &[Figures], prices: Prices<'_>) -> bool {
        let mut budgets = self.budgets.iter().enumerate();
        budgets.all(|(index, budget)| self.cost(index, prices) <= budget.limit)
            && self.limits.iter().all(|(objective, most)| {
                self.value(objective, names, figures, prices).is_some_and(|value| value <= *most)
            })
    }

    /// The objective of a hierarchy, nearest level first; `None` if a write-back count that it needs is not known, or there
    /// is no reference.
    #[must_use]
    pub fn value(
        &self,
        objective: &Objective,
        names: &[String],
        figures: &[Figures],
        prices: Prices<'_>,
    ) -> Option<f64> {
        let level = |name: &Option<String>| match name {
            None => figures.last(),
            Some(name) => figures.get(names.iter().position(|other| other == name)?),
        };
        match objective {
            Objective::Misses(name) => level(name).map(|level| level.misses as f64),
            Objective::Traffic(name) => level(name)?.traffic().map(|bytes| bytes as f64),
            Objective::Size => Some(figures.iter().map(|level| level.size).sum::<u64>() as f64),
            Objective::Cost(name) => {
                Some(self.cost(self.budgets.iter().position(|budget| budget.name == *name)?, prices))
            }
            Objective::Amat => {
                let (first, last) = (figures.first()?, figures.last()?);
                let hits = figures.iter().zip(prices.iter());
                let hits: f64 = hits.map(|(level, price)| (level.accesses - level.misses) as f64 * price.latency).sum();
                let time = hits + last.misses as f64 * self.latency.as_ref()?.memory;
                (first.accesses > 0).then(|| time / first.accesses as f64)
            }
            Objective::Energy => {
                let (mut sum, mut written) = (0.0, 0);
                for (level, price) in figures.iter().zip(prices.iter()) {
                    sum += (level.accesses + written) as f64 * price.energy;
                    written = level.writebacks?;
                }
                Some(sum + (figures.last()?.misses + written) as f64 * self.energy.as_ref()?.memory)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(accesses: u64, misses: u64, writebacks: u64) -> Figures {
        Figures { accesses, misses, writebacks: Some(writebacks), line: 64, size: 1024 }
    }

    #[test]
    fn objectives_by_hand() {
        let table = "memory = 100\n[level.L1]\nconstant = 1\n[level.L2]\nconstant = 10";
        let budget = "limit = 12\n[level.L1]\nconstant = 5\n[level.L2]\nper_way = 3";
        let table = Table::accesses(table, "t.toml").unwrap();
        let goal = Goal {
            latency: Some(table.clone()),
            energy: Some(table),
            budgets: vec![Budget::parse(budget, "area", "area.toml").unwrap()],
            limits: vec![],
        };
        let shape = |text: &str| text.parse::<crate::Cache>().unwrap().shape(&[64]).unwrap();
        let all = ["L1=1K:2", "L2=1K:2"].map(|text| vec![goal.price(&shape(text)).unwrap()]);
        let prices = Prices { all: &all, picks: &[0, 0] };
        let names = ["L1", "L2"].map(str::to_owned);
        let done = [figures(1000, 100, 30), figures(100, 20, 5)];
        let value = |text: &str| goal.value(&text.parse().unwrap(), &names, &done, prices);
        assert_eq!((value("misses"), value("misses:L1")), (Some(20.0), Some(100.0)));
        assert_eq!((value("traffic"), value("traffic:L1")), (Some(25.0 * 64.0), Some(130.0 * 64.0)));
        assert_eq!((value("size"), value("area")), (Some(2048.0), Some(11.0)));
        // 900 hits at 1, 80 at 10, 20 from memory at 100.
        assert_eq!(value("amat"), Some((900.0 + 800.0 + 2000.0) / 1000.0));
        // 1000 accesses at 1, 100 and 30 write-backs at 10, 20 and 5 to memory.
        assert_eq!(value("energy"), Some(1000.0 + 1300.0 + 2500.0));
        assert!(goal.allows(&names, &done, prices));
        let tight = Goal { limits: vec![("amat".parse().unwrap(), 3.6)], ..goal.clone() };
        assert!(!tight.allows(&names, &done, prices));
        let unknown = [done[0], Figures { writebacks: None, ..done[1] }];
        assert_eq!(goal.value(&Objective::Traffic(None), &names, &unknown, prices), None);
        assert_eq!(goal.value(&Objective::Misses(None), &names, &unknown, prices), Some(20.0));
    }

    #[test]
    fn objectives_that_cannot_be_computed_say_what_is_missing() {
        let names = ["L1".to_owned()];
        let check = |text: &str| Goal::default().check(&text.parse().unwrap(), &names).unwrap_err();
        assert!(check("amat").contains("--latency") && check("energy").contains("--energy"));
        assert!(check("misses:L2").contains("no level L2") && check("area").contains("`area`"));
        assert!("amat:L1".parse::<Objective>().unwrap_err().contains(":L1"));
        assert_eq!("traffic:L2".parse::<Objective>().unwrap().to_string(), "traffic:L2");
    }
}
