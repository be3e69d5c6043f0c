//! Reach of the translation buffers: latency of a chain with one line on each page, beside a chain of as many lines close
//! together. What the first takes longer is address translation.

use crate::{
    error::Error,
    latency::of_chain,
    session::Session,
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
    let mut points = Vec::new();
    for pages in [Pages::Base, Pages::Large] {
        let page = session.buffer_on(1, pages)?.got().page_bytes;
        if points.iter().any(|point: &Point| point.page_bytes == page) {
            continue;
        }
        let most = (session.memory.min(MOST_BYTES) / page).min(MOST_PAGES);
        for count in counts(most) {
            points.push(point(session, pages, page, count)?);
        }
    }
    Ok(points)
}

/// Four counts for each doubling.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let powers = (3..usize::BITS).map(|bits| 1usize << bits);
    powers.flat_map(|count| [4, 5, 6, 7].map(|quarter| count / 4 * quarter)).take_while(move |count| *count <= most)
}

fn point(session: &Session, pages: Pages, page: usize, count: usize) -> Result<Point, Error> {
    let line = session.topology.line();
    // Each page's line at another place in it, or all would fall into few sets of the caches.
    let places = (0..count).map(|index| index * page + index * line % page).collect();
    let mut spread = Chain::new(session.buffer_on(count * page, pages)?, places, count as u64);
    let spread = of_chain(session, &mut spread);
    let mut dense = Chain::lines(session.buffer(count * line)?, count * line, line, count as u64);
    let dense = of_chain(session, &mut dense);
    Ok(Point {
        page_bytes: page,
        pages: count,
        ns: spread.value,
        dense_ns: dense.value,
        spread_ns: spread.spread + dense.spread,
        stable: spread.stable && dense.stable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_grow_by_quarters_of_a_doubling() {
        assert_eq!(counts(33).collect::<Vec<_>>(), [8, 10, 12, 14, 16, 20, 24, 28, 32]);
    }
}
