//! Lines that one thread wrote and another used, by object, bytes and place in the source: who shares what.

use bincode::{Decode, Encode};

use crate::validate::{Check, Invalid, at_most_all, ensure, sum, within};

/// The lines of one size that several threads of a process used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SharedLines {
    /// Line size, bytes.
    pub line_bytes: u32,
    /// Lines that were tracked at most.
    pub most: u64,
    /// Lines beyond those, of which nothing is known.
    pub dropped_lines: u64,
    /// Accesses to them.
    pub dropped_accesses: u64,
    /// By address; one where another object came to lie is there once for each, the last one last.
    pub lines: Vec<SharedLine>,
}

/// One line and the threads that used it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SharedLine {
    /// Of its first byte.
    pub address: u64,
    /// What lies there; `None`: unknown.
    pub object: Option<SharedObject>,
    /// By slot.
    pub users: Vec<LineUser>,
}

/// What lies at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SharedObject {
    /// Where it was allocated.
    pub kind: ObjectKind,
    /// Symbol, or the allocation site as text.
    pub name: String,
    /// Of its first byte.
    pub address: u64,
    /// Length of the whole object, bytes; 0: it is several, of which the first lies there, and the name has the names of all.
    pub bytes: u64,
}

/// Kinds of memory that objects lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ObjectKind {
    /// A variable of the program or of a library.
    #[default]
    Global,
    /// A block of an allocator.
    Heap,
    /// The stack of a thread.
    Stack,
}

/// What one thread did to a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LineUser {
    /// The slot of the thread.
    pub slot: u32,
    /// Loads since a second thread used the line.
    pub loads: u64,
    /// Stores since then.
    pub stores: u64,
    /// The bytes loaded: one bit for each byte of the line, lowest first; for each `line_bytes / 64` bytes of a line of
    /// more than 64.
    pub loaded: u64,
    /// The bytes stored, in the same way.
    pub stored: u64,
    /// Whether it stored the line before a second thread used it, too; those accesses are not counted.
    pub stored_before: bool,
    /// References that found the line taken away by another thread's store, in a cache without bounds, and used bytes
    /// that another had stored since the last such miss: true sharing (Dubois et al., ISCA 1993).
    pub true_misses: u64,
    /// Those that did not use such bytes before they lost the line again: false sharing.
    pub false_misses: u64,
    /// Where from, most accesses first; perhaps not all of them.
    pub places: Vec<LinePlace>,
}

/// Accesses of one place in the source to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct LinePlace {
    /// The item that the place is part of; 0, or one that is not there: unknown.
    pub item: u32,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

impl SharedLines {
    /// Checks every line and their order, and that the line size is a power of two.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Self { line_bytes, most, ref lines, .. } = *self;
        ensure(line_bytes.is_power_of_two(), || format!("line size {line_bytes} is no power of two"))?;
        ensure(lines.len() as u64 <= most, || format!("{} lines of at most {most}", lines.len()))?;
        ensure(lines.is_sorted_by_key(|line| line.address), || "lines are not sorted by address".into())?;
        let mut all = lines.iter();
        all.try_for_each(|line| within(|| format!("line {:#x}", line.address), line.validate(line_bytes)))
    }
}

impl SharedLine {
    fn validate(&self, line_bytes: u32) -> Check {
        let aligned = self.address.is_multiple_of(line_bytes.into());
        ensure(aligned, || format!("no line of {line_bytes} bytes begins there"))?;
        let sorted = self.users.is_sorted_by(|a, b| a.slot < b.slot);
        ensure(sorted, || "slots are not ascending".into())?;
        let mut all = self.users.iter();
        all.try_for_each(|user| within(|| format!("slot {}", user.slot), user.validate(line_bytes)))
    }
}

impl LineUser {
    /// Checks that bytes lie in the line, that what is counted touches some, and that parts are no more than the whole.
    fn validate(&self, line_bytes: u32) -> Check {
        let Self { loads, stores, loaded, stored, true_misses, false_misses, ref places, .. } = *self;
        let beyond = (loaded | stored).checked_shr(line_bytes).unwrap_or(0);
        ensure(beyond == 0, || "bytes beyond the end of the line".into())?;
        let touched = (loads == 0 || loaded != 0) && (stores == 0 || stored != 0);
        ensure(touched, || "accesses without bytes".into())?;
        let all = sum([loads, stores]);
        at_most_all("misses", sum([true_misses, false_misses]), all)?;
        at_most_all("loads by place", sum(places.iter().map(|place| place.loads)), loads.into())?;
        at_most_all("stores by place", sum(places.iter().map(|place| place.stores)), stores.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sharing;
    use crate::wire::{Part as _, encode};

    #[test]
    fn a_line_is_read_once_and_in_order() {
        let read = |lines: Vec<SharedLine>, before: Vec<SharedLine>| {
            let mut raw = Vec::new();
            encode(&(SharedLines { lines, ..sharing(64) }, before), &mut raw);
            SharedLines::decode_any(2, &raw)
        };
        let all = sharing(64).lines;
        let (last, before) = ([0, 1, 3, 4].map(|at| all[at].clone()).to_vec(), vec![all[2].clone()]);
        assert_eq!(read(last.clone(), before.clone()).unwrap().lines, all);
        let mut swapped = last.clone();
        swapped.swap(0, 1);
        assert!(read(swapped, before).is_err() && read(all.clone(), vec![]).is_err());
        assert!(read(last, vec![all[3].clone(), all[0].clone()]).is_err());
    }

    #[test]
    fn what_no_run_can_see_is_refused() {
        let after = |change: fn(&mut SharedLines)| {
            let mut data = sharing(64);
            change(&mut data);
            data.validate().unwrap_err().to_string()
        };
        assert_eq!(sharing(64).validate(), Ok(()));
        assert_eq!(after(|data| data.line_bytes = 48), "line size 48 is no power of two");
        assert_eq!(after(|data| data.most = 1), "5 lines of at most 1");
        assert_eq!(after(|data| data.lines.swap(0, 1)), "lines are not sorted by address");
        assert_eq!(after(|data| data.lines[0].address += 8), "line 0x4048: no line of 64 bytes begins there");
        assert_eq!(after(|data| data.lines[0].users.swap(0, 1)), "line 0x4040: slots are not ascending");
        let of_user = |change: fn(&mut LineUser)| {
            let mut data = sharing(32);
            change(&mut data.lines[0].users[0]);
            let text = data.validate().unwrap_err().to_string();
            text.strip_prefix("line 0x2020: slot 0: ").expect(&text).to_owned()
        };
        assert_eq!(of_user(|user| user.loaded = 1 << 32), "bytes beyond the end of the line");
        assert_eq!(of_user(|user| user.stored = 0), "accesses without bytes");
        assert_eq!(
            of_user(|user| user.true_misses = 1 << 41),
            "misses add up to 2199023256452 instead of at most 1099511631776"
        );
        assert_eq!(
            of_user(|user| user.places[0].loads = 4001),
            "loads by place add up to 4001 instead of at most 4000"
        );
    }
}
