//! Reach of the translation buffers: latency of a chain with one line on each page, beside a chain of as many lines close
//! together. What the first takes longer is address translation.

use crate::{
    error::Error,
    latency::round,
    session::Session,
    stat::{Figure, Take},
    sys::{chain::Chain, pages::Pages},
};
use serde::Serialize;

/// A number of pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages gone through.
    pub pages: usize,
    /// Nanoseconds of a load with one line on each page.
    pub ns: f64,
    /// Nanoseconds of a load with as many lines close together.
    pub dense_ns: f64,
    /// Distance between the three rounds that agree best, of both added.
    pub spread_ns: f64,
    /// Whether both settled.
    pub stable: bool,
}

impl Point {
    /// Nanoseconds of a load's address translation beyond what overlaps with the access.
    #[must_use]
    pub fn extra_ns(&self) -> f64 {
        (self.ns - self.dense_ns).max(0.0)
    }
}

/// Most pages, and most bytes that pages of one size may take.
const MOST_PAGES: usize = 32 << 10;
const MOST_BYTES: usize = 1 << 30;

/// Measures small pages, and large ones where they are to be had.
///
/// # Errors
/// There is not enough memory.
pub fn curve(session: &Session) -> Result<Vec<Point>, Error> {
    let mut cases: Vec<Case> = Vec::new();
    for pages in [Pages::Base, Pages::Large] {
        let page = session.buffer_on(1, pages)?.got().page_bytes;
        if cases.iter().any(|case| case.page == page) {
            continue;
        }
        let most = (session.memory.min(MOST_BYTES) / page).min(MOST_PAGES);
        cases.extend(counts(most).map(|count| Case { pages, page, count }));
    }
    let take = Take::Least;
    let spread = session
        .progress
        .within(0.0..0.9, || session.settle_all(take, &cases, |case| Ok(round(session, &mut case.spread(session)?))))?;
    let dense = session
        .progress
        .within(0.9..1.0, || session.settle_all(take, &cases, |case| Ok(round(session, &mut case.dense(session)?))))?;
    let point = |((case, spread), dense): ((&Case, Option<Figure>), Option<Figure>)| {
        let (spread, dense) = (spread.expect("rounds have samples"), dense.expect("rounds have samples"));
        Point {
            page_bytes: case.page,
            pages: case.count,
            ns: spread.value,
            dense_ns: dense.value,
            spread_ns: spread.spread + dense.spread,
            stable: spread.stable && dense.stable,
        }
    };
    Ok(cases.iter().zip(spread).zip(dense).map(point).collect())
}

/// A number of pages of one size.
struct Case {
    pages: Pages,
    page: usize,
    count: usize,
}

impl Case {
    /// One line on each page, each page's at another place in it, or all would fall into few sets of the caches.
    fn spread(&self, session: &Session) -> Result<Chain, Error> {
        let line = session.topology.line();
        let places = (0..self.count).map(|index| index * self.page + index * line % self.page).collect();
        let buffer = session.buffer_on(self.count * self.page, self.pages)?;
        Ok(Chain::new(buffer, places, self.count as u64))
    }

    /// As many lines close together.
    fn dense(&self, session: &Session) -> Result<Chain, Error> {
        let (line, bytes) = (session.topology.line(), self.count * session.topology.line());
        Ok(Chain::lines(session.buffer(bytes)?, bytes, line, self.count as u64))
    }
}

/// Four counts for each doubling.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let powers = (3..usize::BITS).map(|bits| 1usize << bits);
    powers.flat_map(|count| [4, 5, 6, 7].map(|quarter| count / 4 * quarter)).take_while(move |count| *count <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_by_quarters_of_a_doubling() {
        assert_eq!(counts(33).collect::<Vec<_>>(), [8, 10, 12, 14, 16, 20, 24, 28, 32]);
    }
}
