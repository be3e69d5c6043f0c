//! The caches of one level, each with what it does with all references that its threads make.

use crate::{
    compose::{self, Composer},
    error::QueryError,
    query::is_wanted,
    sampled::SampledLevel,
    share::{Share, ShareError},
    sharing::Sharing,
    spec::{Scope, Shape},
    stack::{Counts, Level, Model},
};
use bf_profile::{LineCoherence, LineData, Owner, Process, SampledLines};

/// A cache and what it counted.
pub(crate) type UnitOf = (Unit, Counts);

/// What each cache of a level does with the references of a process under `tags`; `capacity` as in [`Level::new`].
/// `None`: the process recorded nothing at all, and answers zero.
///
/// # Errors
/// The profile cannot tell about this cache, or the process was recorded otherwise than others of the profile.
pub(crate) fn count(
    process: &Process,
    shape: &Shape,
    capacity: u64,
    share: Option<&Share>,
    tags: &[String],
) -> Result<Option<Vec<UnitOf>>, QueryError> {
    let Some(lines) = Lines::of(process, shape.line) else {
        // A process that recorded nothing at all answers zero; one recorded otherwise cannot be added up.
        if process.line_sizes().next().is_none() && process.meta.accesses == 0 {
            return Ok(None);
        }
        let named = format!("{} {}", process.meta.executable, process.meta.pid);
        return Err(QueryError::Uneven(named, shape.line));
    };
    let units = units(&lines, shape.scope, share)?;
    let mut rule = Rule::new(shape, capacity, &lines, units.iter().any(Unit::composed))?;
    let wanted = |tag: u32| is_wanted(process, tags, tag);
    let counted = units.into_iter().map(|unit| {
        let counts = rule.count(&unit, wanted);
        (unit, counts)
    });
    Ok(Some(counted.collect()))
}

/// The stacks of one line size in one process.
enum Lines<'a> {
    Whole(&'a LineData, Option<&'a LineCoherence>),
    Sampled(&'a SampledLines),
}

impl<'a> Lines<'a> {
    fn of(process: &'a Process, line: u32) -> Option<Self> {
        let coherence = process.coherence.iter().find(|data| data.line_bytes == line);
        let whole = process.lines.iter().find(|data| data.line_bytes == line);
        let whole = whole.map(|data| Self::Whole(data, coherence));
        whole.or_else(|| process.sampled.iter().find(|data| data.line_bytes == line).map(Self::Sampled))
    }

    /// Whose references were counted.
    fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<Owner> = match self {
            Self::Whole(data, _) => data.stacks.iter().map(|stack| stack.owner).collect(),
            Self::Sampled(data) => data.references.iter().map(|references| references.owner).collect(),
        };
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

/// A cache made ready to be asked about such stacks.
enum Rule<'a> {
    Whole(Level, &'a LineData, Option<&'a LineCoherence>),
    Sampled(SampledLevel<'a>),
    Composed(Level, Composer),
}

impl<'a> Rule<'a> {
    fn new(shape: &Shape, capacity_lines: u64, lines: &Lines<'a>, composed: bool) -> Result<Self, QueryError> {
        Ok(match *lines {
            Lines::Whole(data, coherence) if composed => {
                Self::Composed(compose::level(shape, capacity_lines), Composer::new(data, coherence))
            }
            Lines::Sampled(_) if composed => return Err(ShareError::Sampled(shape.name.clone()).into()),
            Lines::Whole(data, coherence) => Self::Whole(Level::new(shape, capacity_lines, data)?, data, coherence),
            Lines::Sampled(data) => Self::Sampled(SampledLevel::new(shape, capacity_lines, data)?),
        })
    }

    /// What the cache does with the references of `unit` under the tags that `wanted` says.
    fn count(&mut self, unit: &Unit, wanted: impl Fn(u32) -> bool) -> Counts {
        let owner = unit.owner;
        match self {
            Self::Composed(level, composer) => {
                Counts { model: Model::Composed, ..level.count(&composer.compose(&unit.slots)) }
            }
            Self::Whole(level, data, coherence) => {
                let mut counts = Counts::none();
                for stack in data.stacks.iter().filter(|stack| stack.owner == owner && wanted(stack.tag)) {
                    counts += &level.count(&stack.histograms);
                }
                let alone =
                    data.stacks.iter().all(|stack| matches!(stack.owner, Owner::Slot(_)) && stack.owner == owner);
                let sharing = match (owner, coherence) {
                    (Owner::Slot(slot), Some(coherence)) => {
                        let mut sum = Sharing::default();
                        for part in coherence.slots.iter().filter(|part| part.slot == slot && wanted(part.tag)) {
                            sum += &level.sharing(part);
                        }
                        Some(sum)
                    }
                    (Owner::Slot(_), None) if !alone => None,
                    _ => Some(Sharing::default()),
                };
                level.share(&mut counts, sharing);
                counts
            }
            Self::Sampled(level) => level.count(owner, wanted),
        }
    }
}

/// One cache of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Whose stack it takes; `Global` for several slots.
    owner: Owner,
    /// Whose references reach it, ascending.
    pub(crate) slots: Vec<u32>,
    /// How many slots there are.
    all: usize,
    /// Whether there was a second one, whose references may not be counted: private stacks keep no write-backs then.
    pub(crate) several: bool,
}

impl Unit {
    /// Whether there is no stack of exactly these slots.
    fn composed(&self) -> bool {
        self.owner == Owner::Global && self.slots.len() < self.all
    }
}

/// The caches of a level: one for each slot, one for all of them, or one for each group.
fn units(lines: &Lines<'_>, scope: Scope, share: Option<&Share>) -> Result<Vec<Unit>, QueryError> {
    let owners = lines.owners();
    let slots: Vec<u32> = owners
        .iter()
        .filter_map(|owner| match owner {
            Owner::Slot(slot) => Some(*slot),
            Owner::Global => None,
        })
        .collect();
    let (all, global) = (slots.len(), owners.contains(&Owner::Global));
    let several = all > 1 || global;
    let private = |slot| Unit { owner: Owner::Slot(slot), slots: vec![slot], all, several };
    if let Some(share) = share {
        share.fits(&slots)?;
    }
    if scope == Scope::Private || !several {
        return Ok(slots.into_iter().map(private).collect());
    }
    if !global {
        return Err(QueryError::NoGlobal);
    }
    let groups = share.map_or_else(|| vec![slots], |share| share.groups.clone());
    Ok(groups.into_iter().map(|slots| Unit { owner: Owner::Global, slots, all, several }).collect())
}
