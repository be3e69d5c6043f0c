//! What accesses went to: blocks by where they were allocated, variables, stacks.

use bincode::{Decode, Encode};

use crate::places::Places;
use crate::sharing::ObjectKind;
use crate::validate::{Invalid, ensure};

/// The objects that the items of a process name. Empty if nothing was kept by object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Objects {
    /// In no particular order.
    pub objects: Vec<Object>,
    /// By item of the places: the object that its references went to. `None`: unknown memory.
    pub items: Vec<Option<u32>>,
    /// Whether there were so many blocks that some were put together: peaks may be too high then.
    pub crowded: bool,
}

/// A variable, a stack, or all blocks that were allocated at one place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Object {
    /// Where it was allocated.
    pub kind: ObjectKind,
    /// Symbol, or the allocation site or thread as text.
    pub name: String,
    /// Index into [`Places::sites`]: where blocks were allocated.
    pub site: Option<u32>,
    /// How many blocks were allocated there; 1 for anything else.
    pub count: u64,
    /// Bytes of all of them; 0: unknown.
    pub bytes: u64,
    /// The most bytes of them that were in use at a time; 0: unknown.
    pub peak: u64,
}

impl Objects {
    /// Checks that every index names something.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self, places: &Places) -> Result<(), Invalid> {
        let named = |at: &Option<u32>, of: usize| at.is_none_or(|at| (at as usize) < of);
        let mut items = self.items.iter();
        ensure(items.all(|object| named(object, self.objects.len())), || "an item names no object".into())?;
        ensure(self.items.len() <= places.items.len(), || "objects of items that are not there".into())?;
        self.objects.iter().try_for_each(|object| {
            let Object { name, site, bytes, peak, .. } = object;
            ensure(named(site, places.sites.len()), || format!("object `{name}` names no site"))?;
            ensure(peak <= bytes, || format!("object `{name}` has a peak above its bytes"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{objects, places};

    #[test]
    fn indices_that_name_nothing_are_refused() {
        let after = |change: fn(&mut Objects)| {
            let mut data = objects();
            change(&mut data);
            data.validate(&places()).unwrap_err().to_string()
        };
        assert_eq!(objects().validate(&places()), Ok(()));
        assert_eq!(after(|data| data.items[1] = Some(9)), "an item names no object");
        assert_eq!(after(|data| data.items.resize(4, None)), "objects of items that are not there");
        assert_eq!(after(|data| data.objects[0].site = Some(2)), "object `graph.c:7` names no site");
        assert_eq!(after(|data| data.objects[0].peak = 1 << 20), "object `graph.c:7` has a peak above its bytes");
    }
}
