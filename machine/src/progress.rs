//! How far a measurement is, for who waits for it.

use std::{
    fmt,
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Who is told how far a measurement is. Called between rounds, never while something is timed.
pub trait Watch: fmt::Debug + Send + Sync {
    /// This part of all the work is done, from 0 to 1.
    fn advanced(&self, part: f64);
}

/// Tells a watcher, if there is one, how far a measurement is: parts of parts are parts of the whole.
#[derive(Debug)]
pub struct Progress {
    watch: Option<Box<dyn Watch>>,
    /// What the work now going on is of the whole.
    span: Mutex<Range<f64>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { watch: None, span: Mutex::new(0.0..1.0) }
    }
}

impl Progress {
    /// Tells `watch`.
    #[must_use]
    pub fn told_to(watch: Box<dyn Watch>) -> Self {
        Self { watch: Some(watch), ..Self::default() }
    }

    /// This part of the work now going on is done, from 0 to 1.
    pub fn advanced(&self, part: f64) {
        if let Some(watch) = &self.watch {
            let span = self.span();
            watch.advanced(span.start + (span.end - span.start) * part);
        }
    }

    /// Does `work`, which is this part of the work now going on.
    pub fn within<T>(&self, part: Range<f64>, work: impl FnOnce() -> T) -> T {
        let whole = self.span();
        let at = |part: f64| whole.start + (whole.end - whole.start) * part;
        self.set(at(part.start)..at(part.end));
        self.advanced(0.0);
        let done = work();
        self.advanced(1.0);
        self.set(whole);
        done
    }

    fn span(&self) -> Range<f64> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, span: Range<f64>) {
        *self.span.lock().unwrap_or_else(PoisonError::into_inner) = span;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, Clone, Default)]
    struct Heard(Arc<Mutex<Vec<f64>>>);

    impl Watch for Heard {
        fn advanced(&self, part: f64) {
            self.0.lock().unwrap().push(part);
        }
    }

    #[test]
    fn parts_of_parts_are_parts_of_the_whole() {
        let heard = Heard::default();
        let progress = Progress::told_to(Box::new(heard.clone()));
        progress.within(0.0..0.5, || progress.within(0.5..1.0, || progress.advanced(0.5)));
        progress.within(0.5..1.0, || progress.advanced(0.25));
        assert_eq!(*heard.0.lock().unwrap(), [0.0, 0.25, 0.375, 0.5, 0.5, 0.5, 0.625, 1.0]);
    }
}
