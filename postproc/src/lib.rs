//! Questions to profiles.
#![forbid(unsafe_code)]
