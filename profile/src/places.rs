//! Where in the source accesses come from, as the compiler told: functions, loops and lines.

use bincode::{Decode, Encode};

use crate::validate::Invalid;

/// The places that the other parts of a process's data name by index. Empty if nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Places {
    /// What the tables name by index: names and paths, each once.
    pub strings: Vec<String>,
    /// Functions of the source.
    pub functions: Vec<Function>,
    /// Loops of the compiled code, each after the one around it.
    pub loops: Vec<Loop>,
    /// Places in the source, each after the call that it was inlined at.
    pub sites: Vec<Site>,
    /// What references are attributed to. The first, if there is any, is what is attributed to nothing in particular.
    pub items: Vec<Item>,
    /// For each site the basic block that it is in, by its number in the function it was compiled into (see
    /// [`crate::BlockItem::block`]); `None`, and for sites beyond the end: not told.
    pub blocks: Vec<Option<u32>>,
}

/// What references are attributed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Item {
    /// The place; its column is that of one of the accesses there. `None`: unknown.
    pub site: Option<u32>,
    /// Whether it stands for all places of the site's function that had to be merged for want of items.
    pub merged: bool,
}

/// A function of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Function {
    /// String: linkage name.
    pub name: u32,
    /// String: the name as people write it.
    pub display: u32,
    /// String: path of the source file, "" if unknown.
    pub file: u32,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
}

/// A loop of the compiled code: what the optimiser made of one loop of the source may be several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Loop {
    /// The function that it is written in.
    pub function: u32,
    /// String: path of the source file, "" if unknown.
    pub file: u32,
    /// Line that it begins on; 0 if unknown.
    pub line: u32,
    /// 1 for an outermost one.
    pub depth: u32,
    /// The loop around it.
    pub parent: Option<u32>,
}

/// A place in the source, perhaps in a function that was inlined into another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Site {
    /// The function that the place is written in.
    pub function: u32,
    /// String: path of the source file, "" if unknown.
    pub file: u32,
    /// 0 if unknown.
    pub line: u32,
    /// 0 if unknown.
    pub column: u32,
    /// The call that was replaced by the function's body; `None`: the function was compiled by itself.
    pub inlined_at: Option<u32>,
    /// The innermost loop around it.
    pub innermost: Option<u32>,
}

impl Places {
    /// A string; "" for one that is not there.
    #[must_use]
    pub fn string(&self, index: u32) -> &str {
        self.strings.get(index as usize).map_or("", String::as_str)
    }

    /// The number of the basic block that a site is in, if that is known.
    #[must_use]
    pub fn block(&self, site: u32) -> Option<u32> {
        self.blocks.get(site as usize).copied().flatten()
    }

    /// The function that a site was compiled into: that of the outermost call it was inlined at, or its own.
    #[must_use]
    pub fn compiled_into(&self, site: u32) -> u32 {
        self.inlined_through(site).last().map_or(0, |site| site.function)
    }

    /// A site, the call it was inlined at, the one that that was inlined at, and so on.
    pub fn inlined_through(&self, site: u32) -> impl Iterator<Item = &Site> {
        let at = |index: u32| self.sites.get(index as usize);
        std::iter::successors(at(site), move |site| site.inlined_at.and_then(at))
    }

    /// Where a site is in the program: where its place is written in the source of the system, as that of the standard library, the
    /// first call that it was inlined at which is not, or the outermost one.
    #[must_use]
    pub fn in_program(&self, mut site: u32) -> Option<u32> {
        loop {
            let at = self.sites.get(site as usize)?;
            match at.inlined_at {
                Some(call) if is_of_the_system(self.string(at.file)) => site = call,
                _ => return Some(site),
            }
        }
    }

    /// Checks that every index names something, and that chains end.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let strings = self.strings.len();
        let within = |what: &str, at: usize, index: u32, of: usize| match index as usize {
            index if index < of => Ok(()),
            _ => Err(Invalid::new(format!("{what} {at} names number {index} of {of}"))),
        };
        for (at, function) in self.functions.iter().enumerate() {
            let names = [function.name, function.display, function.file];
            names.into_iter().try_for_each(|name| within("function", at, name, strings))?;
        }
        for (at, found) in self.loops.iter().enumerate() {
            within("loop", at, found.function, self.functions.len())?;
            within("loop", at, found.file, strings)?;
            found.parent.map_or(Ok(()), |parent| within("loop", at, parent, at))?;
        }
        for (at, site) in self.sites.iter().enumerate() {
            within("site", at, site.function, self.functions.len())?;
            within("site", at, site.file, strings)?;
            site.inlined_at.map_or(Ok(()), |call| within("site", at, call, at))?;
            site.innermost.map_or(Ok(()), |innermost| within("site", at, innermost, self.loops.len()))?;
        }
        if self.blocks.len() > self.sites.len() {
            let (blocks, sites) = (self.blocks.len(), self.sites.len());
            return Err(Invalid::new(format!("{sites} sites have {blocks} blocks")));
        }
        for (at, item) in self.items.iter().enumerate() {
            item.site.map_or(Ok(()), |site| within("item", at, site, self.sites.len()))?;
        }
        Ok(())
    }
}

/// Whether a source file belongs to the system, as those of the standard library do, and not to a program.
#[must_use]
pub fn is_of_the_system(file: &str) -> bool {
    let begins = ["/usr/", "/opt/", "/rustc/", "/rust/deps/"].iter().any(|root| file.starts_with(root));
    begins || ["/../include/", "/lib/rustlib/src/"].iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::places;

    #[test]
    fn a_site_is_compiled_into_the_outermost_function() {
        let places = places();
        assert_eq!((places.compiled_into(0), places.compiled_into(1)), (0, 0));
        assert_eq!(places.string(places.functions[1].display), "vec::at(int)");
        let lines: Vec<_> = places.inlined_through(1).map(|site| site.line).collect();
        assert_eq!(lines, [30, 7]);
    }

    #[test]
    fn what_the_standard_library_does_is_in_the_program() {
        let mut places = places();
        assert_eq!([0, 1, 9].map(|site| places.in_program(site)), [Some(0), Some(1), None]);
        places.strings.push("/usr/include/c++/12/bits/atomic_base.h".to_owned());
        places.sites[1].file = 5;
        assert_eq!([0, 1].map(|site| places.in_program(site)), [Some(0), Some(0)]);
        places.sites[0].file = 5;
        assert_eq!(places.in_program(1), Some(0), "none is the program's own");
    }

    #[test]
    fn indices_that_name_nothing_are_refused() {
        let after = |change: fn(&mut Places)| {
            let mut places = places();
            change(&mut places);
            places.validate().unwrap_err().to_string()
        };
        assert_eq!(after(|p| p.functions[1].file = 9), "function 1 names number 9 of 5");
        assert_eq!(after(|p| p.loops[0].parent = Some(0)), "loop 0 names number 0 of 0");
        assert_eq!(after(|p| p.sites[0].inlined_at = Some(1)), "site 0 names number 1 of 0");
        assert_eq!(after(|p| p.sites[1].innermost = Some(2)), "site 1 names number 2 of 2");
        assert_eq!(after(|p| p.blocks = vec![None; 3]), "2 sites have 3 blocks");
    }
}
