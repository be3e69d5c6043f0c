//! The shape of a cache: how a user writes one (`L1=32K:8`), and what is left of it once the line size is known.

use crate::{error::SpecError, size};
use std::{fmt, str::FromStr};

/// Line size when neither the user nor the profile says.
pub(crate) const DEFAULT_LINE: u32 = 64;

/// Who uses a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each thread has one of its own.
    #[default]
    Private,
    /// One for all threads of a process.
    Shared,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Shared => "shared",
        })
    }
}

/// Associativity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Fully associative: one set.
    Full,
    /// Lines per set.
    Number(u64),
}

impl FromStr for Ways {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.eq_ignore_ascii_case("full") {
            return Ok(Self::Full);
        }
        match text.parse() {
            Ok(ways) if ways > 0 => Ok(Self::Number(ways)),
            _ => Err(SpecError::Ways(text.to_owned())),
        }
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Number(ways) => write!(f, "{ways}"),
        }
    }
}

/// A cache as asked for: `NAME=SIZE:WAYS[:LINE][:private|shared][:hashed][:exclusive]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What the answer calls it.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Associativity.
    pub ways: Ways,
    /// Line size, bytes; `None`: 64, or the profile's only one.
    pub line: Option<u32>,
    /// Who uses it.
    pub scope: Scope,
    /// Lines land in sets as if at random (section 4 of the model).
    pub hashed: bool,
    /// Holds no line that a level above holds.
    pub exclusive: bool,
}

impl FromStr for Cache {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, shape) = text.split_once('=').ok_or_else(|| SpecError::Syntax(text.to_owned()))?;
        if name.is_empty() {
            return Err(SpecError::Syntax(text.to_owned()));
        }
        let mut parts = shape.split(':');
        let size = parts.next().unwrap_or_default();
        let size = size::parse(size).ok_or_else(|| SpecError::Size(size.to_owned()))?;
        let ways = parts.next().ok_or_else(|| SpecError::Syntax(text.to_owned()))?.parse()?;
        let mut cache = Self {
            name: name.to_owned(),
            size,
            ways,
            line: None,
            scope: Scope::Private,
            hashed: false,
            exclusive: false,
        };
        let mut seen = Vec::new();
        for part in parts {
            let kind = cache.option(part)?;
            if seen.contains(&kind) {
                return Err(SpecError::Twice { part: part.to_owned(), spec: text.to_owned() });
            }
            seen.push(kind);
        }
        // Shapes that no line size of the profile could mend are refused before a profile is read.
        if let Some(line) = cache.line {
            cache.shape(&[line])?;
        }
        Ok(cache)
    }
}

impl Cache {
    /// Takes one of the optional parts and says which of them it was.
    fn option(&mut self, part: &str) -> Result<&'static str, SpecError> {
        match part {
            "private" => self.scope = Scope::Private,
            "shared" => self.scope = Scope::Shared,
            "hashed" => {
                self.hashed = true;
                return Ok("hashed");
            }
            "exclusive" => {
                self.exclusive = true;
                return Ok("exclusive");
            }
            _ => {
                let bytes = size::parse(part).and_then(|bytes| u32::try_from(bytes).ok());
                match bytes {
                    Some(line) if is_line(line) => self.line = Some(line),
                    Some(line) => return Err(SpecError::LineShape(line)),
                    None => return Err(SpecError::Part(part.to_owned())),
                }
                return Ok("line");
            }
        }
        Ok("scope")
    }

    /// The line size this cache has when a profile knows `available` (ascending).
    ///
    /// # Errors
    /// No cache has that line size, or the profile does not hold it.
    pub fn line_in(&self, available: &[u32]) -> Result<u32, SpecError> {
        let line = match (self.line, available) {
            (Some(line), _) => line,
            (None, &[only]) => only,
            (None, _) => DEFAULT_LINE,
        };
        if !is_line(line) {
            Err(SpecError::LineShape(line))
        } else if available.contains(&line) {
            Ok(line)
        } else {
            Err(SpecError::LineMissing { name: self.name.clone(), line, available: available.to_vec() })
        }
    }

    /// The cache with its line size and set count settled.
    ///
    /// # Errors
    /// The line size is not among `available`, or the size is no multiple of ways times line.
    pub fn shape(&self, available: &[u32]) -> Result<Shape, SpecError> {
        let line = self.line_in(available)?;
        let lines = self.size / u64::from(line);
        let ways = match self.ways {
            Ways::Full => lines.max(1),
            Ways::Number(ways) => ways,
        };
        let way_bytes = ways.checked_mul(u64::from(line)).ok_or_else(|| SpecError::Ways(ways.to_string()))?;
        if !self.size.is_multiple_of(way_bytes) {
            let below = self.size / way_bytes * way_bytes;
            return Err(SpecError::Impossible {
                name: self.name.clone(),
                size: self.size,
                ways,
                line,
                below: (below > 0).then_some(below),
                above: below.checked_add(way_bytes),
            });
        }
        Ok(Shape {
            name: self.name.clone(),
            size: self.size,
            line,
            sets: self.size / way_bytes,
            ways,
            scope: self.scope,
            hashed: self.hashed,
            exclusive: self.exclusive,
        })
    }
}

/// Whether lines can be so long.
const fn is_line(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes >= 8
}

/// A cache whose every number is known. `size = sets * ways * line`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What the answer calls it.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Line size, bytes.
    pub line: u32,
    /// Sets, any number.
    pub sets: u64,
    /// Lines per set.
    pub ways: u64,
    /// Who uses it.
    pub scope: Scope,
    /// Whether the index is taken to be hashed even where the set count is a power of two.
    pub hashed: bool,
    /// Holds no line that a level above holds.
    pub exclusive: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(spec: &str, lines: &[u32]) -> Result<Shape, SpecError> {
        spec.parse::<Cache>()?.shape(lines)
    }

    #[test]
    fn a_full_specification() {
        let cache: Cache = "my L3=1.5M:12:128:shared:hashed:exclusive".parse().unwrap();
        assert_eq!(
            cache,
            Cache {
                name: "my L3".into(),
                size: 3 << 19,
                ways: Ways::Number(12),
                line: Some(128),
                scope: Scope::Shared,
                hashed: true,
                exclusive: true,
            }
        );
        assert_eq!(cache.shape(&[64, 128]).unwrap().sets, 1024);
    }

    #[test]
    fn scope_and_line_have_defaults() {
        let cache: Cache = "L1=32K:8".parse().unwrap();
        assert_eq!((cache.scope, cache.line), (Scope::Private, None));
        assert_eq!(cache.shape(&[32, 64]).unwrap().line, 64);
        assert_eq!(cache.shape(&[128]).unwrap().line, 128);
    }

    #[test]
    fn full_is_one_set() {
        let shape = shape("F=4K:full", &[64]).unwrap();
        assert_eq!((shape.sets, shape.ways), (1, 64));
    }

    #[test]
    fn impossible_shapes_name_the_nearest_sizes() {
        let error = shape("L1=30K:8", &[64]).map(|_| ());
        assert!(error.is_ok(), "30K is 60 sets of 8");
        let error = shape("L1=1000:8", &[64]).unwrap_err().to_string();
        assert!(error.contains("512") && error.contains("1K"), "{error}");
        let error = shape("L1=64:8", &[64]).unwrap_err().to_string();
        assert!(error.contains("512") && !error.contains(" or "), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (spec, word) in [
            ("32K:8", "32K:8"),
            ("=32K:8", "=32K:8"),
            ("L1=32K", "L1=32K"),
            ("L1=big:8", "big"),
            ("L1=32K:0", "`0`"),
            ("L1=32K:8:sharde", "sharde"),
            ("L1=32K:8:48", "48"),
            ("L1=32K:8:shared:private", "private"),
            ("L1=32K:8:64:64", "64"),
        ] {
            let error = spec.parse::<Cache>().unwrap_err().to_string();
            assert!(error.contains(word), "{spec}: {error}");
        }
    }

    #[test]
    fn a_line_size_the_profile_lacks_is_refused_with_those_it_has() {
        let error = shape("L1=32K:8:256", &[64, 128]).unwrap_err().to_string();
        assert!(error.contains("256") && error.contains("64, 128"), "{error}");
    }
}
