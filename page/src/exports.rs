//! The functions that the page's script calls. Texts and files cross the border through two buffers: the script writes
//! into the one that [`bf_input`] makes, and reads the one at [`bf_output`].
//!
//! Numbers are addresses and lengths in the module's memory, in bytes. Nothing runs while the script does, so a buffer
//! lies still until the next call.
#![expect(unsafe_code, reason = "exported names: `no_mangle` is an unsafe attribute. Nothing else here is unsafe")]

use crate::Page;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The profiles loaded, and both buffers.
struct State {
    page: Page,
    input: Vec<u8>,
    output: String,
}

static STATE: Mutex<State> = Mutex::new(State { page: Page::new(), input: Vec::new(), output: String::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the input buffer this long; its address.
#[unsafe(no_mangle)]
pub extern "C" fn bf_input(length: usize) -> usize {
    let mut state = state();
    state.input = vec![0; length];
    state.input.as_ptr().addr()
}

/// Loads the profile in the input buffer; the answer is at [`bf_output`].
#[unsafe(no_mangle)]
pub extern "C" fn bf_load() {
    let mut state = state();
    let input = std::mem::take(&mut state.input);
    state.output = state.page.load(&input);
}

/// Answers the question in the input buffer; the answer is at [`bf_output`].
#[unsafe(no_mangle)]
pub extern "C" fn bf_ask() {
    let mut state = state();
    let input = std::mem::take(&mut state.input);
    state.output = state.page.ask(&input);
}

/// Where the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn bf_output() -> usize {
    state().output.as_ptr().addr()
}

/// How long the answer is.
#[unsafe(no_mangle)]
pub extern "C" fn bf_output_length() -> usize {
    state().output.len()
}
