//! The range of one level as a user writes it: `16K..128K:4..16:64,128:private`.

use crate::{
    error::SpecError,
    spec::{Cache, Scope, Ways},
    sweep,
};

/// Associativity of the first level where none is given, and of those below it.
const DEFAULT_WAYS: [u64; 2] = [8, 16];

/// The first level that all threads share where nothing is said.
const FIRST_SHARED: usize = 3;

/// Most associativities of one range.
const MAX_WAYS: usize = 1024;

/// The caches that one level may be: every combination of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRange {
    /// What answers call the level.
    pub name: String,
    /// Bytes.
    pub sizes: Vec<u64>,
    /// Associativities.
    pub ways: Vec<Ways>,
    /// Line sizes, bytes; `None`: 64, or the profile's only one.
    pub lines: Vec<Option<u32>>,
    /// Who uses it.
    pub scopes: Vec<Scope>,
    /// Lines land in sets as if at random.
    pub hashed: bool,
    /// Holds no line that a level above holds.
    pub exclusive: bool,
}

impl LevelRange {
    /// The range of level `number` (1 for the nearest), written
    /// `SIZES[:WAYS[:LINES]][:private|shared|private,shared][:hashed][:exclusive]`; every list takes `A..B` (doubling),
    /// `A..B+STEP` and commas.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn parse(number: usize, text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let mut range = Self {
            name: format!("L{number}"),
            sizes: sweep::sizes(parts.next().unwrap_or_default())?,
            ways: vec![Ways::Number(DEFAULT_WAYS[usize::from(number > 1)])],
            lines: vec![None],
            scopes: vec![if number < FIRST_SHARED { Scope::Private } else { Scope::Shared }],
            hashed: false,
            exclusive: false,
        };
        // Numbers come in the order ways, lines; words anywhere.
        let mut numbers = 0;
        for part in parts {
            match part {
                "hashed" => range.hashed = true,
                "exclusive" => range.exclusive = true,
                _ if part.starts_with('p') || part.starts_with('s') => range.scopes = scopes(part)?,
                _ => {
                    numbers += 1;
                    match numbers {
                        1 => range.ways = ways(part)?,
                        2 => range.lines = lines(part)?,
                        _ => return Err(format!("`{text}` has more than sizes, ways and line sizes: `{part}`")),
                    }
                }
            }
        }
        Ok(range)
    }

    /// A level that is one cache.
    #[must_use]
    pub fn of(cache: &Cache) -> Self {
        let Cache { name, size, ways, line, scope, hashed, exclusive } = cache.clone();
        let (sizes, ways, lines, scopes) = (vec![size], vec![ways], vec![line], vec![scope]);
        Self { name, sizes, ways, lines, scopes, hashed, exclusive }
    }

    /// The caches, by scope, line size, associativity, then size.
    #[must_use]
    pub fn caches(&self) -> Vec<Cache> {
        let mut caches = Vec::new();
        for &scope in &self.scopes {
            for &line in &self.lines {
                for &ways in &self.ways {
                    caches.extend(self.sizes.iter().map(|&size| Cache {
                        name: self.name.clone(),
                        size,
                        ways,
                        line,
                        scope,
                        hashed: self.hashed,
                        exclusive: self.exclusive,
                    }));
                }
            }
        }
        caches
    }
}

/// `4`, `1,2,full`, `4..16` or `4..12+2`.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub fn ways(text: &str) -> Result<Vec<Ways>, String> {
    let one = |text: &str| text.parse::<Ways>().map_err(|error| error.to_string());
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((first, rest)) = part.split_once("..") else {
            all.push(one(part)?);
            continue;
        };
        let (last, step) = rest.split_once('+').map_or((rest, None), |(last, step)| (last, Some(step)));
        let number = |text: &str| match one(text)? {
            Ways::Number(ways) => Ok(ways),
            Ways::Full => Err(format!("`{part}`: a range of associativities goes from number to number")),
        };
        let (mut at, last) = (number(first)?, number(last)?);
        let step = step.map(number).transpose()?;
        if at > last {
            return Err(format!("`{part}` runs backwards"));
        }
        while at <= last {
            if all.len() == MAX_WAYS {
                return Err(format!("`{part}` has more than {MAX_WAYS} associativities"));
            }
            all.push(Ways::Number(at));
            at = at.saturating_add(step.unwrap_or(at));
        }
    }
    Ok(all)
}

fn lines(text: &str) -> Result<Vec<Option<u32>>, String> {
    let line = |bytes: u64| match u32::try_from(bytes) {
        Ok(line) if line.is_power_of_two() && line >= 8 => Ok(Some(line)),
        line => Err(SpecError::LineShape(line.unwrap_or(u32::MAX)).to_string()),
    };
    sweep::sizes(text)?.into_iter().map(line).collect()
}

fn scopes(text: &str) -> Result<Vec<Scope>, String> {
    let scope = |word: &str| match word {
        "private" => Ok(Scope::Private),
        "shared" => Ok(Scope::Shared),
        _ => Err(SpecError::Part(word.to_owned()).to_string()),
    };
    text.split(',').map(scope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_they_are_written() {
        let range = LevelRange::parse(1, "16K..128K:4..16").unwrap();
        assert_eq!((range.name.as_str(), range.caches().len()), ("L1", 4 * 3));
        let sizes: Vec<_> = range.caches().iter().map(|cache| (cache.size, cache.ways)).collect();
        assert_eq!(sizes[..2], [(16 << 10, Ways::Number(4)), (32 << 10, Ways::Number(4))]);
        assert_eq!(LevelRange::parse(1, "32K").unwrap().ways, [Ways::Number(8)]);
        assert_eq!(LevelRange::parse(3, "4M").unwrap().ways, [Ways::Number(16)]);
        let range = LevelRange::parse(2, "1M:1,full,4..8+2:32..128:private,shared:hashed:exclusive").unwrap();
        let numbers = [1, 4, 6, 8].map(Ways::Number);
        assert_eq!(range.ways, [numbers[0], Ways::Full, numbers[1], numbers[2], numbers[3]]);
        assert_eq!(range.lines, [Some(32), Some(64), Some(128)]);
        assert_eq!(range.scopes, [Scope::Private, Scope::Shared]);
        assert!(range.hashed && range.exclusive);
        assert_eq!(LevelRange::parse(3, "4M:shared:8").unwrap().ways, [Ways::Number(8)]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, word) in [
            ("", "``"),
            ("32K:x", "`x`"),
            ("32K:0", "`0`"),
            ("32K:16..4", "backwards"),
            ("32K:1..full", "number to number"),
            ("32K:1..1000000+1", "1024"),
            ("32K:8:48", "48"),
            ("32K:8:64:9", "`9`"),
            ("32K:sharde", "sharde"),
        ] {
            let error = LevelRange::parse(1, text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
