//! Design spaces: every hierarchy that ranges of sizes, associativities, line sizes and scopes allow, each answered as
//! [`crate::query()`] would, and the best of them by an objective and within budgets.
//!
//! What each candidate of a level does with all references is counted once ([`space`]); a hierarchy is then a walk down its
//! levels with one comparison a cache, which is why millions take seconds ([`search`]).

pub mod cost;
pub mod knees;
pub mod objective;
pub mod range;
pub mod search;
pub mod space;
pub mod study;

pub use cost::{Budget, CostError, Table};
pub use objective::{Goal, Objective};
pub use range::LevelRange;
pub use search::{Found, Outcome, Wanted};
pub use space::{Hierarchy, Space};
