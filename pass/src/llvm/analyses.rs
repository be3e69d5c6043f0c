//! What the pass asks LLVM's analyses of a function. They hold as long as the function was only changed through here.

use super::*;

/// The analyses of a module's functions.
#[derive(Clone, Copy)]
pub(crate) struct Analyses(*mut c_void);

/// Blocks of a loop, at most.
const ROOM: usize = 4;

/// A loop that goes from block to block.
pub(crate) struct Chain {
    pub(crate) blocks: Vec<Block>,
    /// So many blocks, the first ones, come once more than the others.
    pub(crate) more: usize,
}

/// How such a loop goes.
pub(crate) struct Course {
    /// The last instruction before the loop.
    pub(crate) before: Value,
    /// The number of iterations, of whole ones if some blocks come once more; at least 1.
    pub(crate) iterations: Value,
    /// For each address: where it is in the first iteration, and by how many bytes it moves.
    pub(crate) places: Vec<(Value, Value)>,
    /// Where each is when blocks come once more, if some do.
    pub(crate) lasts: Vec<Value>,
}

// SAFETY (for every block below): as for `Module`; the function analysis manager is that of the module.
impl Analyses {
    /// # Safety
    /// `manager` is the function analysis manager of the module that everything asked about is in.
    pub(crate) const unsafe fn new(manager: *mut c_void) -> Self {
        Self(manager)
    }

    /// Gives each call that may become a jump a return of its own. Before anything else is asked about the function.
    pub(crate) fn share_no_returns(self, function: Value) {
        // SAFETY: as said above the impl.
        unsafe { bf_shim_share_no_returns(self.0, function.0) }
    }

    pub(super) const fn manager(self) -> *mut c_void {
        self.0
    }

    /// How many bytes `to` lies behind `from`, if that is a constant. Both are addresses that one block uses.
    pub(crate) fn distance(self, function: Value, from: Value, to: Value) -> Option<i64> {
        let mut bytes = 0;
        // SAFETY: as said above the impl.
        unsafe { bf_shim_distance(self.0, function.0, from.0, to.0, &raw mut bytes) }.then_some(bytes)
    }

    /// The loop that begins with a block, if it goes from block to block.
    pub(crate) fn chain(self, block: Block) -> Option<Chain> {
        let (mut blocks, mut more) = ([ptr::null_mut(); ROOM], 0);
        // SAFETY: as said above the impl; there is room for so many.
        let n = unsafe { bf_shim_chain(self.0, block.0, blocks.as_mut_ptr(), ROOM as c_uint, &raw mut more) };
        let blocks: Vec<_> = blocks[..n as usize].iter().map(|&block| Block(block)).collect();
        (n > 0).then_some(Chain { blocks, more: more as usize })
    }

    /// The course of such a loop, if it is known before it starts, with all these addresses. Computes it there.
    pub(crate) fn course(self, chain: &Chain, addresses: &[Value]) -> Option<Course> {
        let mut firsts: Vec<_> = addresses.iter().map(|address| address.0).collect();
        let mut strides = vec![ptr::null_mut(); firsts.len()];
        let mut lasts = if chain.more > 0 { strides.clone() } else { Vec::new() };
        let mut iterations = ptr::null_mut();
        let (block, n) = (chain.blocks[0].0, firsts.len() as c_uint);
        let last = if lasts.is_empty() { ptr::null_mut() } else { lasts.as_mut_ptr() };
        let (first, stride) = (firsts.as_mut_ptr(), strides.as_mut_ptr());
        // SAFETY: as said above the impl; all arrays have room for `n`, the last one if it is there.
        let before = unsafe { bf_shim_stream(self.0, block, n, first, stride, last, &raw mut iterations) };
        if before.is_null() {
            return None;
        }
        let places = firsts.into_iter().map(Value).zip(strides.into_iter().map(Value)).collect();
        let lasts = lasts.into_iter().map(Value).collect();
        Some(Course { before: Value(before), iterations: Value(iterations), places, lasts })
    }
}
