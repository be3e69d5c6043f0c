//! Which bytes a process touched and how often, and how its instructions step through memory: kept if asked for.
//! `docs/counters.md` says what is counted.

use bincode::{Decode, Encode};

use crate::validate::{Check, Invalid, ensure, sum, within};

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Patterns {
    /// The whole run first, then each tag under which anything was touched, ascending.
    pub touched: Vec<Touched>,
    /// Sorted by site, tag, kind and size, none twice.
    pub strides: Vec<Strides>,
    /// What `touched` says of each function that touched anything, sorted by function, none twice; empty if that was not
    /// asked for. They do not add up: a byte that several functions touched is each one's.
    pub by_function: Vec<TouchedBy>,
}

/// The bytes that a process touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Touched {
    /// Index into [`crate::Process::tags`]; `None`: whatever the tag.
    pub tag: Option<u32>,
    /// How many different ones.
    pub bytes: u64,
    /// How many of them were touched so many times: pairs of touches and bytes, ascending. Empty if that was not asked for.
    pub touches: Vec<(u64, u64)>,
    /// Accesses that are missing for want of memory.
    pub missing: u64,
}

/// The bytes that one function touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct TouchedBy {
    /// The function that was compiled, with all that was inlined into it: an index into those of the process's places;
    /// `None`: unknown.
    pub function: Option<u32>,
    /// In the whole run, or under a tag.
    pub touched: Touched,
}

/// How far apart consecutive accesses of the instructions of one place are, in each thread by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Strides {
    /// Index into the sites of the process's places; `None`: unknown.
    pub site: Option<u32>,
    /// Index into [`crate::Process::tags`].
    pub tag: u32,
    /// Stores or loads.
    pub store: bool,
    /// Bytes of each access: the word that strides are counted in.
    pub bytes: u32,
    /// Pairs of a stride and how many accesses had it, ascending: words forward up to [`Strides::MOST`], or one of the
    /// numbers behind that.
    pub counts: Vec<(u8, u64)>,
}

impl Strides {
    /// The longest stride that is told apart, words.
    pub const MOST: u8 = 64;
    /// In [`Strides::counts`]: any other way forward.
    pub const OTHER: u8 = Self::MOST + 1;
    /// Any way backward.
    pub const BACKWARD: u8 = Self::MOST + 2;
    /// No stride: the first access of the instruction in a thread.
    pub const FIRST: u8 = Self::MOST + 3;

    fn key(&self) -> (Option<u32>, u32, bool, u32) {
        (self.site, self.tag, self.store, self.bytes)
    }
}

impl Patterns {
    /// Checks order and sums, but for [`Self::by_function`]; `tags` and `sites` are how many of them there are.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self, tags: usize, sites: usize) -> Result<(), Invalid> {
        let Self { touched, strides, by_function: _ } = self;
        ensure(touched.is_sorted_by(|a, b| a.tag < b.tag), || "touched bytes are not ascending by tag".into())?;
        touched.iter().try_for_each(|part| within(|| "touched bytes".into(), part.validate(tags)))?;
        ensure(strides.is_sorted_by(|a, b| a.key() < b.key()), || "strides are not sorted".into())?;
        let known = |part: &Strides| (part.tag as usize) < tags && part.site.is_none_or(|site| (site as usize) < sites);
        ensure(strides.iter().all(known), || "strides of a tag or site that is not there".into())?;
        let sound = |part: &Strides| {
            part.bytes > 0
                && part.counts.is_sorted_by(|a, b| a.0 < b.0)
                && part.counts.iter().all(|&(stride, _)| stride <= Strides::FIRST)
        };
        ensure(strides.iter().all(sound), || "strides that there are not, or not ascending".into())
    }

    /// Checks what functions touched; `tags` and `functions` are how many of them there are.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate_by_function(&self, tags: usize, functions: usize) -> Result<(), Invalid> {
        let all = &self.by_function;
        let key = |by: &TouchedBy| (by.function, by.touched.tag);
        ensure(all.is_sorted_by(|a, b| key(a) < key(b)), || "bytes by function are not sorted".into())?;
        for TouchedBy { function, touched } in all {
            let named = function.is_none_or(|function| (function as usize) < functions);
            ensure(named, || "bytes of a function that is not there".into())?;
            within(|| "bytes by function".into(), touched.validate(tags))?;
            let whole = self.touched.iter().find(|whole| whole.tag == touched.tag);
            let most = whole.map_or(0, |whole| whole.bytes);
            ensure(touched.bytes <= most, || format!("a function touched {} bytes of {most}", touched.bytes))?;
        }
        Ok(())
    }
}

impl Touched {
    fn validate(&self, tags: usize) -> Check {
        ensure(self.tag.is_none_or(|tag| (tag as usize) < tags), || "a tag has no name".into())?;
        let ascending = self.touches.is_sorted_by(|a, b| a.0 < b.0);
        ensure(ascending && self.touches.first().is_none_or(|first| first.0 > 0), || "touches do not ascend".into())?;
        let all = sum(self.touches.iter().map(|&(_, bytes)| bytes));
        let whole = self.touches.is_empty() || all == u128::from(self.bytes);
        ensure(whole, || format!("{all} bytes by touches, {} in all", self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::patterns;

    #[test]
    fn what_does_not_hold_is_named() {
        let after = |change: fn(&mut Patterns)| {
            let mut patterns = patterns();
            change(&mut patterns);
            let checked = patterns.validate(2, 2).and_then(|()| patterns.validate_by_function(2, 2));
            checked.err().map(|invalid| invalid.to_string())
        };
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(after(|_| {}), None);
        assert_eq!(after(|all| all.touched.swap(0, 1)), said("touched bytes are not ascending by tag"));
        assert_eq!(after(|all| all.touched[1].tag = Some(2)), said("touched bytes: a tag has no name"));
        assert_eq!(after(|all| all.touched[0].bytes += 1), said("touched bytes: 12 bytes by touches, 13 in all"));
        assert_eq!(after(|all| all.touched[0].touches[0].0 = 1 << 40), said("touched bytes: touches do not ascend"));
        assert_eq!(after(|all| all.strides.swap(0, 1)), said("strides are not sorted"));
        assert_eq!(after(|all| all.strides[1].site = Some(2)), said("strides of a tag or site that is not there"));
        let wild = said("strides that there are not, or not ascending");
        assert_eq!(after(|all| all.strides[1].counts[1].0 = 68), wild);
        assert_eq!(after(|all| all.by_function.swap(0, 1)), said("bytes by function are not sorted"));
        let unknown = said("bytes of a function that is not there");
        assert_eq!(after(|all| all.by_function[2].function = Some(2)), unknown);
        assert_eq!(
            after(|all| all.by_function[2].touched.touches[0].1 += 1),
            said("bytes by function: 10 bytes by touches, 9 in all")
        );
        assert_eq!(after(|all| all.by_function[1].touched.bytes = 5), said("a function touched 5 bytes of 4"));
    }
}
